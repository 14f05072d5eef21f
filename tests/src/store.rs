//! The stores that one suite runs against.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tenure_store::{Account, Service};

use crate::port::wait_and_reserve;
use crate::{Azurite, Certificates};

/// The variable that names a real storage account for the suite.
pub const ACCOUNT_VARIABLE: &str = "TENURE_TEST_CONNECTION_STRING";

/// A store that candidates contend on.
#[derive(Debug)]
pub enum Store {
    /// The embedded one, in this process.
    Embedded(tenure_store::Store),
    /// Azurite, a process of its own.
    Azurite(Arc<Azurite>),
    /// A real storage account.
    Account(String),
}

/// A store that is down. Its port is kept for it, and for the embedded store all that it holds.
#[derive(Debug)]
pub enum StoppedStore {
    /// State as it was.
    Embedded(Box<Service>, SocketAddr),
    /// Azurite forgets; clients go on trusting the same authority.
    Azurite(u16, Option<Arc<Certificates>>),
}

impl Store {
    /// An embedded store.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn embedded() -> Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let service = Service::new(vec![Account::emulator()], 1);
        Ok(Self::Embedded(tenure_store::Store::start(any, service).await?))
    }

    /// An Azurite that nobody else uses.
    ///
    /// # Errors
    /// It cannot be installed or started.
    pub async fn azurite() -> Result<Self> {
        Ok(Self::Azurite(Azurite::start(0, None).await?.into()))
    }

    /// An Azurite that other tests use too, over TLS if so wanted: it cannot be stopped, and containers must
    /// have names of their own.
    ///
    /// # Errors
    /// It cannot be installed or started.
    pub async fn shared_azurite(tls: bool) -> Result<Self> {
        Ok(Self::Azurite(Azurite::shared(tls).await?))
    }

    /// Azurite over TLS, which takes tokens too.
    ///
    /// # Errors
    /// It cannot be installed or started.
    pub async fn azurite_tls() -> Result<Self> {
        let certificates = Arc::new(Certificates::generate()?);
        Ok(Self::Azurite(Azurite::start(0, Some(certificates)).await?.into()))
    }

    /// The account that [`ACCOUNT_VARIABLE`] names.
    ///
    /// # Errors
    /// The variable is not set.
    pub fn account() -> Result<Self> {
        let hint = || format!("set {ACCOUNT_VARIABLE} to the connection string of an account");
        Ok(Self::Account(std::env::var(ACCOUNT_VARIABLE).with_context(hint)?))
    }

    /// How to reach it.
    #[must_use]
    pub fn connection_string(&self) -> String {
        match self {
            Self::Embedded(store) => store.connection_string(),
            Self::Azurite(azurite) => azurite.connection_string(),
            Self::Account(connection_string) => connection_string.clone(),
        }
    }

    /// Whom its clients must trust, beside those that the platform trusts.
    #[must_use]
    pub fn ca_file(&self) -> Option<PathBuf> {
        match self {
            Self::Azurite(azurite) => Some(azurite.certificates()?.ca()),
            Self::Embedded(_) | Self::Account(_) => None,
        }
    }

    /// Takes it down; connections to it are refused from then on.
    ///
    /// # Errors
    /// It is a real account, or others use it too.
    pub async fn stop(self) -> Result<StoppedStore> {
        match self {
            Self::Embedded(store) => {
                let address = store.address();
                let service = Box::new(store.stop().await);
                wait_and_reserve(address).await?;
                Ok(StoppedStore::Embedded(service, address))
            }
            Self::Azurite(azurite) => {
                let (port, certificates) = (azurite.port(), azurite.certificates().cloned());
                drop(Arc::into_inner(azurite).context("others use this Azurite too")?);
                wait_and_reserve((Ipv4Addr::LOCALHOST, port).into()).await?;
                Ok(StoppedStore::Azurite(port, certificates))
            }
            Self::Account(_) => bail!("a real account cannot be stopped"),
        }
    }
}

impl StoppedStore {
    /// Brings it back where it was.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(self) -> Result<Store> {
        Ok(match self {
            Self::Embedded(service, address) => {
                Store::Embedded(tenure_store::Store::start(address, *service).await?)
            }
            Self::Azurite(port, certificates) => {
                Store::Azurite(Azurite::start(port, certificates).await?.into())
            }
        })
    }
}
