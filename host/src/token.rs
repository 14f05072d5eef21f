//! Tokens of Microsoft Entra ID that a program issues itself.

use crate::future::{BoxError, BoxFuture};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tenure_core::{Secret, causes};
use tokio::time::timeout;

/// Issues tokens of Microsoft Entra ID for the storage account: for credentials that a program has already.
///
/// ```ignore
/// // Any credential of the Azure SDK. The crates `azure_core` and `azure_identity` are no dependencies of this one.
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
    /// Returns a token for [`Token::SCOPE`]. It is called before the first request, again 5 minutes before the last token
    /// expires, and after an error. It may take 10 s.
    ///
    /// # Errors
    ///
    /// Why there is no token now. The last token is used until it expires.
    fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>>;
}

/// A token of Microsoft Entra ID, from a [`TokenProvider`].
#[derive(Clone, Debug)]
pub struct Token {
    secret: Secret,
    expires: SystemTime,
}

impl Token {
    /// The scope of tokens for storage.
    pub const SCOPE: &str = "https://storage.azure.com/.default";

    /// A token that expires then.
    pub fn new(secret: impl Into<Secret>, expires: SystemTime) -> Self {
        Self { secret: secret.into(), expires }
    }
}

/// So long before it expires, a token is replaced.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// The longest that a provider may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What stands for a token while there is none: settings are judged before the first request.
const NONE: &str = "none-yet";

/// The tokens of a provider. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    provider: Arc<dyn TokenProvider>,
    /// The provider was asked, and has not answered yet.
    asked: AtomicBool,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    token: Option<Token>,
    /// Why the provider issued none, until that is reported.
    failure: Option<String>,
}

/// The provider has answered, or whoever asked it has gone.
struct Asked<'s>(&'s AtomicBool);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Tokens {
    pub fn of(provider: Arc<dyn TokenProvider>) -> Self {
        let (asked, last) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Shared { provider, asked, last }))
    }

    /// The last token, also after it expired: the service says so then.
    pub fn last(&self) -> Secret {
        let last = self.0.last();
        last.token.as_ref().map_or_else(|| NONE.into(), |token| token.secret.clone())
    }

    /// Asks for a token when it is time. Waits for it only where there is none that is valid.
    pub async fn renew(&self) {
        let left = self.0.left();
        if left > EARLY {
            return;
        }
        if left.is_zero() {
            return self.0.ask().await;
        }
        let shared = self.0.clone();
        tokio::spawn(async move { shared.ask().await });
    }

    /// Why the provider issued no token when it was last asked. Each failure is told once.
    pub fn failure(&self) -> Option<String> {
        self.0.last().failure.take()
    }
}

/// The same tokens.
impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tokens {}

impl Shared {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the last token is still valid.
    fn left(&self) -> Duration {
        let expires = self.last().token.as_ref().map(|token| token.expires);
        let left = expires.and_then(|expires| expires.duration_since(SystemTime::now()).ok());
        left.unwrap_or_default()
    }

    async fn ask(&self) {
        if self.asked.swap(true, Ordering::SeqCst) {
            return;
        }
        let _asked = Asked(&self.asked);
        let answer = timeout(LIMIT, self.provider.token()).await;
        let mut last = self.last();
        match answer {
            Ok(Ok(token)) => *last = Last { token: Some(token), failure: None },
            Ok(Err(error)) => last.failure = Some(causes(&*error)),
            Err(_) => last.failure = Some(format!("no answer within {LIMIT:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Tokens that are valid for so long, or none.
    #[derive(Debug)]
    struct Provider(Option<Duration>, AtomicUsize);

    impl TokenProvider for Provider {
        fn token(&self) -> BoxFuture<'_, Result<Token, BoxError>> {
            let number = self.1.fetch_add(1, Ordering::SeqCst);
            let valid = self.0.map(|valid| SystemTime::now() + valid);
            Box::pin(async move {
                let expires = valid.ok_or("out of tokens")?;
                Ok(Token::new(format!("t{number}"), expires))
            })
        }
    }

    fn tokens(valid: Option<Duration>) -> (Tokens, Arc<Provider>) {
        let provider = Arc::new(Provider(valid, AtomicUsize::default()));
        (Tokens::of(provider.clone()), provider)
    }

    #[tokio::test]
    async fn a_token_is_asked_for_once_until_it_is_about_to_expire() {
        let (tokens, provider) = tokens(Some(2 * EARLY));
        assert_eq!(tokens.last().reveal(), NONE);
        for _ in 0..3 {
            tokens.renew().await;
        }
        assert_eq!(tokens.last().reveal(), "t0");
        assert_eq!(provider.1.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn nobody_waits_while_the_last_token_is_valid() {
        let (tokens, _) = tokens(Some(EARLY));
        tokens.renew().await;
        // Asked in a task, which has not run yet.
        tokens.renew().await;
        assert_eq!(tokens.last().reveal(), "t0");
        while tokens.last().reveal() == "t0" {
            tokio::task::yield_now().await;
        }
        assert_eq!(tokens.last().reveal(), "t1");
    }

    #[tokio::test]
    async fn a_failure_is_told_once_and_the_last_token_stays() {
        let (failing, provider) = tokens(None);
        failing.renew().await;
        assert_eq!(failing.failure().as_deref(), Some("out of tokens"));
        assert_eq!(failing.failure(), None);
        failing.renew().await;
        assert_eq!(provider.1.load(Ordering::SeqCst), 2);
        let (expired, _) = tokens(Some(Duration::ZERO));
        expired.renew().await;
        assert_eq!((expired.last().reveal(), expired.failure()), ("t0", None));
    }
}
