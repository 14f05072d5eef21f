//! Accounts and their keys.

use std::fmt;

use tenure_azure::shared_key::Key;
use thiserror::Error;

use super::sas::{SasParameters, Token};

/// The account that every emulator of Azure Storage has.
pub const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

/// The key of [`EMULATOR_ACCOUNT`]. It is public, the same everywhere, and no secret.
pub const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The name of one of an account's two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// The first key, used in connection strings.
    Key1,
    /// The second key.
    Key2,
}

/// A storage account: a name with one or two keys. With two keys, clients can use one while the
/// other is replaced. `Debug` prints no key.
#[derive(Clone)]
pub struct Account {
    name: String,
    /// Each key in base64, and parsed.
    keys: Vec<(String, Key)>,
}

/// An error in the description of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AccountError {
    /// The name is not 3 to 24 lower-case letters and digits.
    #[error("an account's name is 3 to 24 lower-case letters and digits")]
    InvalidName,
    /// There is no key, or more than two.
    #[error("an account has one or two keys: NAME:KEY or NAME:KEY:KEY")]
    KeyCount,
    /// A key is not base64.
    #[error("an account's key must be base64")]
    InvalidKey,
    /// There is no account of that name.
    #[error("there is no account of that name")]
    Unknown,
}

impl Account {
    /// Returns the emulator's account with its public key.
    pub fn emulator() -> Account {
        let keys = Key::from_base64(EMULATOR_KEY).map(|key| (EMULATOR_KEY.to_owned(), key));
        Account { name: EMULATOR_ACCOUNT.to_owned(), keys: keys.into_iter().collect() }
    }

    /// Creates an account with one or two keys, each in base64 as the portal shows it.
    ///
    /// # Errors
    ///
    /// Returns an error that names the invalid part. It does not contain a key.
    pub fn new(name: &str, keys: &[&str]) -> Result<Account, AccountError> {
        let has_valid_letters =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !has_valid_letters || !(3..=24).contains(&name.len()) {
            return Err(AccountError::InvalidName);
        }
        if !(1..=2).contains(&keys.len()) {
            return Err(AccountError::KeyCount);
        }
        let parse_key = |text: &&str| {
            Key::from_base64(text)
                .map(|key| ((*text).to_owned(), key))
                .ok_or(AccountError::InvalidKey)
        };
        Ok(Account {
            name: name.to_owned(),
            keys: keys.iter().map(parse_key).collect::<Result<_, _>>()?,
        })
    }

    /// Parses `NAME:KEY` or `NAME:KEY:KEY`, the form of Azurite's `AZURITE_ACCOUNTS`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Account::new`].
    pub fn parse(text: &str) -> Result<Account, AccountError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        Account::new(name, &parts.collect::<Vec<_>>())
    }

    /// Returns the account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection string for this account at `host` (`HOST:PORT`), with its first key.
    /// It is **a secret**, except for the emulator's account.
    pub fn connection_string(&self, host: impl fmt::Display) -> String {
        let name = &self.name;
        let key = self.keys.first().map_or("", |(text, _)| text);
        format!(
            "DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};BlobEndpoint=http://{host}/{name};"
        )
    }

    /// Returns a shared access signature for this account, signed with one of its keys: **a
    /// secret**. Returns `None` if the second key is requested and missing.
    pub fn sas(&self, name: KeyName, parameters: &SasParameters) -> Option<Token> {
        let (_, key) = self.keys.get(name as usize)?;
        Some(parameters.sign(&self.name, key))
    }

    /// Replaces a key, or adds the second. Signatures of the replaced key become invalid.
    pub(super) fn replace_key(&mut self, name: KeyName, text: &str) -> Result<(), AccountError> {
        let key = (text.to_owned(), Key::from_base64(text).ok_or(AccountError::InvalidKey)?);
        match self.keys.get_mut(name as usize) {
            Some(old) => *old = key,
            None => self.keys.push(key),
        }
        Ok(())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().map(|(_, key)| key)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulators_key_is_a_key() {
        assert_eq!(Account::emulator().keys().count(), 1);
    }

    #[test]
    fn one_key_or_two() {
        assert_eq!(Account::parse("alpha:AAEC").unwrap().keys().count(), 1);
        assert_eq!(Account::parse("alpha:AAEC:AwQF").unwrap().keys().count(), 2);
    }

    #[test]
    fn a_key_is_replaced_and_a_second_is_added() {
        let key_texts = |account: &Account| {
            account.keys.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>()
        };
        let mut account = Account::parse("alpha:AAEC").unwrap();
        account.replace_key(KeyName::Key1, "AwQF").unwrap();
        assert_eq!(key_texts(&account), ["AwQF"]);
        account.replace_key(KeyName::Key2, "BgcI").unwrap();
        assert_eq!(key_texts(&account), ["AwQF", "BgcI"]);
        account.replace_key(KeyName::Key2, "CQoL").unwrap();
        assert_eq!(key_texts(&account), ["AwQF", "CQoL"]);
        assert_eq!(account.replace_key(KeyName::Key1, "?"), Err(AccountError::InvalidKey));
        assert_eq!(key_texts(&account), ["AwQF", "CQoL"], "a text that is no key replaces none");
    }

    #[test]
    fn errors_name_the_invalid_part() {
        assert_eq!(Account::parse("Alpha:AAEC").unwrap_err(), AccountError::InvalidName);
        assert_eq!(Account::parse("").unwrap_err(), AccountError::InvalidName);
        assert_eq!(Account::parse("alpha").unwrap_err(), AccountError::KeyCount);
        assert_eq!(Account::parse("alpha:a:b:c").unwrap_err(), AccountError::KeyCount);
        assert_eq!(Account::parse("alpha:?").unwrap_err(), AccountError::InvalidKey);
    }

    #[test]
    fn no_key_is_printed() {
        assert_eq!(
            format!("{:?}", Account::emulator()),
            "Account { name: \"devstoreaccount1\", .. }"
        );
    }

    #[test]
    fn a_connection_string_names_account_key_and_endpoint() {
        let text = Account::parse("alpha:AAEC").unwrap().connection_string("127.0.0.1:9");
        assert_eq!(
            text,
            "DefaultEndpointsProtocol=http;AccountName=alpha;AccountKey=AAEC;BlobEndpoint=http://127.0.0.1:9/alpha;"
        );
    }
}
