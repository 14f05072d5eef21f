use super::looks_secret;

#[test]
fn keys_signatures_and_tokens_do() {
    for secret in [
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        "AccountName=a;AccountKey=c2VjcmV0",
        "?sv=2022-11-02&sig=c2VjcmV0",
        "eyJ0eXAiOiJKV1QifQ.e30.c2ln",
        "whsec_c2VjcmV0",
        "853B9A84E1A84F2A9D0C11AA00F0F0F0",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "my Q8~dq3kL0bTt2mZ9xW5vRrY7uNnA1cEe4fGh",
    ] {
        assert!(looks_secret(secret), "{secret}");
    }
}

#[test]
fn names_and_periods_do_not() {
    for plain in [
        "15s",
        "leases/nightly-report",
        "jobs/Nightly Report For The Whole Of The Company 2026",
        "a-very-long-container-name-for-the-jobs-of-2026",
        "0 9 * * MON-FRI",
        "ab1f708d-50f6-404c-a006-d71b2ac7a606",
    ] {
        assert!(!looks_secret(plain), "{plain}");
    }
}
