//! Tokens of Microsoft Entra ID from a provider of the program.

use crate::future::{BoxError, BoxFuture};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tenure_core::{Secret, error_chain};
use tokio::time::{Instant, timeout};

/// Issues tokens of Microsoft Entra ID for the storage account, for programs that already have a
/// credential.
///
/// ```ignore
/// // Any credential of the Azure SDK. This crate depends on neither `azure_core` nor
/// // `azure_identity`.
/// #[derive(Debug)]
/// struct Azure(Arc<dyn azure_core::credentials::TokenCredential>);
///
/// impl TokenProvider for Azure {
///     fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>> {
///         Box::pin(async {
///             let token = self.0.get_token(&[Token::SCOPE], None).await?;
///             Ok(Token::new(token.token.secret(), token.expires_on.into()))
///         })
///     }
/// }
/// ```
pub trait TokenProvider: fmt::Debug + Send + Sync + 'static {
    /// Returns a token for [`Token::SCOPE`].
    ///
    /// The elector calls this before the first request, and again from 5 minutes before the last
    /// token expires, at most every 10 s. A call that takes longer than 10 s fails.
    ///
    /// # Errors
    ///
    /// Returns the reason why there is no token now, which is reported. The last token remains in
    /// use.
    fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>>;
}

/// A token of Microsoft Entra ID, from a [`TokenProvider`].
#[derive(Clone, Debug)]
pub struct Token {
    secret: Secret,
    expires: SystemTime,
}

impl Token {
    /// Scope of tokens for storage.
    pub const SCOPE: &str = "https://storage.azure.com/.default";

    /// Creates a token that expires at that time.
    pub fn new(secret: impl Into<Secret>, expires: SystemTime) -> Self {
        Self { secret: secret.into(), expires }
    }
}

/// Time before its expiry at which a token is replaced.
const RENEW_EARLY: Duration = Duration::from_secs(5 * 60);

/// Timeout of a call to the provider.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Shortest time from a reply of the provider to the next call.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Placeholder for the token while settings are validated before the first call.
const NO_TOKEN: &str = "none-yet";

/// Tokens of a provider. Clones share them.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Arc<dyn TokenProvider>,
    /// Held while calling the provider.
    call_lock: tokio::sync::Mutex<()>,
    last: Mutex<LastCall>,
}

#[derive(Debug, Default)]
struct LastCall {
    token: Option<Token>,
    /// Time of the last reply.
    answered_at: Option<Instant>,
    /// Error of the last reply.
    failure: Option<String>,
    /// True if [`Tokens::new_failure`] has returned the error.
    is_reported: bool,
}

impl Tokens {
    pub(crate) fn new(provider: impl TokenProvider) -> Self {
        let provider = Arc::new(provider);
        Self(Arc::new(Shared { provider, call_lock: Default::default(), last: Mutex::default() }))
    }

    /// Returns the last token, or a placeholder if there is none yet. Also returns an expired
    /// token, because the service decides whether to accept it.
    pub(crate) fn last(&self) -> Secret {
        let last = self.0.last();
        last.token.as_ref().map_or_else(|| NO_TOKEN.into(), |token| token.secret.clone())
    }

    /// Calls the provider if a new token is due. Waits for the reply only if there is no valid
    /// token.
    ///
    /// # Errors
    ///
    /// Returns the provider's error if there is no token yet.
    pub(crate) async fn renew(&self) -> Result<(), String> {
        let shared = &self.0;
        let time_left = shared.time_left();
        if time_left.is_zero() {
            let _one = shared.call_lock.lock().await;
            shared.call_if_due().await;
        } else if time_left <= RENEW_EARLY {
            let shared = shared.clone();
            tokio::spawn(async move {
                if let Ok(_one) = shared.call_lock.try_lock() {
                    shared.call_if_due().await;
                }
            });
        }
        match &*shared.last() {
            LastCall { token: None, failure: Some(failure), .. } => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the provider's error, unless it was returned before.
    pub(crate) fn new_failure(&self) -> Option<String> {
        let mut last = self.0.last();
        if std::mem::replace(&mut last.is_reported, true) { None } else { last.failure.clone() }
    }
}

/// Equal if both share their tokens.
impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tokens {}

impl Shared {
    fn last(&self) -> MutexGuard<'_, LastCall> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the remaining validity of the last token.
    fn time_left(&self) -> Duration {
        let expires = self.last().token.as_ref().map(|token| token.expires);
        let time_left = expires.and_then(|expires| expires.duration_since(SystemTime::now()).ok());
        time_left.unwrap_or_default()
    }

    /// Calls the provider, unless another caller just did.
    async fn call_if_due(&self) {
        let answered_at = self.last().answered_at;
        if self.time_left() > RENEW_EARLY
            || answered_at.is_some_and(|answered_at| answered_at.elapsed() < RETRY_PAUSE)
        {
            return;
        }
        let answer = timeout(CALL_TIMEOUT, self.provider.token()).await;
        let mut last = self.last();
        last.answered_at = Some(Instant::now());
        last.is_reported = false;
        last.failure = match answer {
            Ok(Ok(token)) => {
                last.token = Some(token);
                None
            }
            Ok(Err(error)) => Some(error_chain(&*error)),
            Err(_) => Some(format!("no answer within {CALL_TIMEOUT:?}")),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::advance;

    /// Issues tokens that are valid for that time, or fails if it is `None`.
    #[derive(Clone, Debug)]
    struct Provider(Option<Duration>, Arc<AtomicUsize>);

    impl TokenProvider for Provider {
        fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>> {
            let number = self.1.fetch_add(1, Ordering::SeqCst);
            let expires = self.0.map(|valid| SystemTime::now() + valid);
            Box::pin(async move {
                tokio::task::yield_now().await;
                Ok(Token::new(format!("t{number}"), expires.ok_or("out of tokens")?))
            })
        }
    }

    fn tokens(valid: Option<Duration>) -> (Tokens, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::default());
        (Tokens::new(Provider(valid, calls.clone())), calls)
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_the_first_call() {
        let (tokens, calls) = tokens(Some(2 * RENEW_EARLY));
        assert_eq!(tokens.last().reveal(), NO_TOKEN);
        let first = async { (tokens.renew().await, tokens.last()) };
        let second = async { (tokens.renew().await, tokens.last()) };
        let (first, second) = tokio::join!(first, second);
        for (renewed, token) in [first, second] {
            assert_eq!((renewed, token.reveal()), (Ok(()), "t0"));
        }
        advance(RETRY_PAUSE).await;
        tokens.renew().await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1, "it is valid for longer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_valid_token_is_renewed_in_the_background() {
        let (tokens, calls) = tokens(Some(RENEW_EARLY));
        tokens.renew().await.unwrap();
        tokens.renew().await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(calls.load(Ordering::SeqCst), 1, "it answered just now");
        advance(RETRY_PAUSE).await;
        // The call runs in a task that has not started.
        tokens.renew().await.unwrap();
        assert_eq!(tokens.last().reveal(), "t0");
        while tokens.last().reveal() == "t0" {
            tokio::task::yield_now().await;
        }
        assert_eq!(tokens.last().reveal(), "t1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_fails_is_called_again_after_a_pause() {
        let (tokens, calls) = tokens(None);
        for expected in [1, 2] {
            for new in [Some("out of tokens"), None] {
                assert_eq!(tokens.renew().await, Err("out of tokens".to_owned()));
                assert_eq!(tokens.new_failure().as_deref(), new);
            }
            assert_eq!(calls.load(Ordering::SeqCst), expected);
            advance(RETRY_PAUSE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_token_is_used_until_it_is_renewed() {
        let (tokens, _) = tokens(Some(Duration::ZERO));
        for _ in 0..2 {
            assert_eq!(tokens.renew().await, Ok(()));
            assert_eq!((tokens.last().reveal(), tokens.new_failure()), ("t0", None));
        }
    }
}
