//! Stores that the test suite runs against.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tenure_store::{Account, Service};

use crate::port::wait_and_reserve;
use crate::{Azurite, Certificates};

/// Variable that names a real storage account for the suite.
pub const ACCOUNT_VARIABLE: &str = "TENURE_TEST_CONNECTION_STRING";

/// Store of an election.
#[derive(Debug)]
pub enum Store {
    /// Embedded store in this process.
    Embedded(tenure_store::Store),
    /// Azurite in its own process.
    Azurite(Arc<Azurite>),
    /// Real storage account, by its connection string.
    Account(String),
}

/// Stopped store. Its port stays reserved, and the embedded store keeps its data.
#[derive(Debug)]
pub enum StoppedStore {
    /// Embedded store with its state.
    Embedded(Box<Service>, SocketAddr),
    /// Azurite, which loses its state; its clients continue to trust the same authority.
    Azurite(u16, Option<Arc<Certificates>>),
}

impl Store {
    /// Starts an embedded store.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn embedded() -> Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let service = Service::new(vec![Account::emulator()], 1);
        Ok(Self::Embedded(tenure_store::Store::start(any, service).await?))
    }

    /// Starts an exclusive Azurite.
    ///
    /// # Errors
    /// Azurite cannot be installed or started.
    pub async fn azurite() -> Result<Self> {
        Ok(Self::Azurite(Azurite::start(0, None).await?.into()))
    }

    /// Returns an Azurite that tests share, with TLS on request. It cannot be stopped, and each
    /// test needs its own container names.
    ///
    /// # Errors
    /// Azurite cannot be installed or started.
    pub async fn shared_azurite(tls: bool) -> Result<Self> {
        Ok(Self::Azurite(Azurite::shared(tls).await?))
    }

    /// Starts Azurite with TLS, which also accepts tokens.
    ///
    /// # Errors
    /// Azurite cannot be installed or started.
    pub async fn azurite_tls() -> Result<Self> {
        let certificates = Arc::new(Certificates::generate()?);
        Ok(Self::Azurite(Azurite::start(0, Some(certificates)).await?.into()))
    }

    /// Returns the account that [`ACCOUNT_VARIABLE`] names.
    ///
    /// # Errors
    /// The variable is not set.
    pub fn account() -> Result<Self> {
        let hint = || format!("set {ACCOUNT_VARIABLE} to the connection string of an account");
        Ok(Self::Account(std::env::var(ACCOUNT_VARIABLE).with_context(hint)?))
    }

    /// Returns the connection string.
    #[must_use]
    pub fn connection_string(&self) -> String {
        match self {
            Self::Embedded(store) => store.connection_string(),
            Self::Azurite(azurite) => azurite.connection_string(),
            Self::Account(connection_string) => connection_string.clone(),
        }
    }

    /// Returns the authority that its clients must trust in addition to the platform's.
    #[must_use]
    pub fn ca_file(&self) -> Option<PathBuf> {
        match self {
            Self::Azurite(azurite) => Some(azurite.certificates()?.ca()),
            Self::Embedded(_) | Self::Account(_) => None,
        }
    }

    /// Stops it; connections are refused from then on.
    ///
    /// # Errors
    /// The store is a real account, or other tests share it.
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
    /// Restarts it at the same address.
    ///
    /// # Errors
    /// The store does not start.
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
