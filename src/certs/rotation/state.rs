//! What the CA Secret holds: the current signer, its successor, and the retired CAs that are still trusted.
//!
//! Reading never fails: what cannot be read is set aside and reported, what can still be trusted is kept. Writing gives
//! the whole of what the Secret should hold, so that "nothing to do" is an equality of bytes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::certs::authority::Authority;
use crate::certs::bundle::Bundle;
use crate::certs::certificate::Certificate;

/// Certificate of the current signer.
pub const CURRENT_CRT: &str = "ca.crt";
/// Private key of the current signer.
pub const CURRENT_KEY: &str = "ca.key";
/// Certificate of the successor.
pub const NEXT_CRT: &str = "next.crt";
/// Private key of the successor.
pub const NEXT_KEY: &str = "next.key";
/// Since when every live bundle has carried the successor, RFC 3339.
pub const NEXT_PUBLISHED: &str = "next.published";
/// The retired CAs, a JSON list of certificate and `until`.
pub const RETIRED: &str = "retired.json";

/// Every key of the Secret that this program knows.
pub const ALL_KEYS: [&str; 6] = [
    CURRENT_CRT,
    CURRENT_KEY,
    NEXT_CRT,
    NEXT_KEY,
    NEXT_PUBLISHED,
    RETIRED,
];

/// The data of a Secret.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// The state of rotation, as it is kept between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Issues the serving certificates. Missing on a fresh installation, and after damage until a new CA is trusted.
    pub current: Option<Authority>,
    /// Published beside the current CA, to take its place.
    pub next: Option<Successor>,
    /// No longer issue, but are still in the bundle.
    pub retired: Vec<Retired>,
}

/// A CA that is being made known before it issues anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The CA.
    pub authority: Authority,
    /// Since when every live bundle has carried it.
    pub published: Option<Timestamp>,
}

/// A CA certificate that stays in the bundle for the certificates it once issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The certificate; its key is gone.
    pub certificate: Certificate,
    /// When it leaves the bundle.
    pub until: Timestamp,
}

/// What was found when the Secret was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// What could be read.
    pub state: State,
    /// CA certificates whose key is unusable: still to be trusted, never to sign.
    pub orphans: Vec<Certificate>,
    /// What could not be read, a sentence each, for an Event.
    pub damage: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct RetiredEntry {
    certificate: String,
    until: Timestamp,
}

impl State {
    /// The bundle to publish: current, successor, retired.
    pub fn bundle(&self) -> Bundle {
        self.authorities().cloned().collect()
    }

    /// Whether the certificate is one of those in the bundle.
    pub fn knows(&self, certificate: &Certificate) -> bool {
        self.authorities().any(|known| known == certificate)
    }

    fn authorities(&self) -> impl Iterator<Item = &Certificate> {
        let current = self.current.iter().map(Authority::certificate);
        let next = self.next.iter().map(|next| next.authority.certificate());
        let retired = self.retired.iter().map(|retired| &retired.certificate);
        current.chain(next).chain(retired)
    }

    /// The data that the Secret should hold, all of it.
    pub fn encode(&self) -> SecretData {
        let mut data = SecretData::new();
        if let Some(current) = &self.current {
            put(&mut data, CURRENT_CRT, current.certificate().to_pem());
            put(&mut data, CURRENT_KEY, current.key().expose());
        }
        if let Some(next) = &self.next {
            put(&mut data, NEXT_CRT, next.authority.certificate().to_pem());
            put(&mut data, NEXT_KEY, next.authority.key().expose());
            if let Some(published) = next.published {
                put(&mut data, NEXT_PUBLISHED, published.to_string());
            }
        }
        if !self.retired.is_empty() {
            let entries: Vec<RetiredEntry> = self.retired.iter().map(RetiredEntry::from).collect();
            // Two strings a certificate: there is nothing in it that JSON could not hold.
            put(
                &mut data,
                RETIRED,
                serde_json::to_vec(&entries).unwrap_or_default(),
            );
        }
        data
    }

    /// Reads the Secret's data.
    pub fn decode(data: &SecretData) -> Stored {
        let mut stored = Stored::default();
        stored.state.current = stored.read_authority(data, CURRENT_CRT, CURRENT_KEY);
        let published = data
            .get(NEXT_PUBLISHED)
            .and_then(|value| str::from_utf8(value).ok()?.parse().ok());
        stored.state.next = stored
            .read_authority(data, NEXT_CRT, NEXT_KEY)
            .map(|authority| Successor {
                authority,
                published,
            });
        stored.read_retired(data);
        stored
    }
}

impl Stored {
    fn read_authority(&mut self, data: &SecretData, crt: &str, key: &str) -> Option<Authority> {
        let (certificate, secret) = (data.get(crt), data.get(key));
        if certificate.is_none() && secret.is_none() {
            return None;
        }
        let certificate = certificate.map(Vec::as_slice).unwrap_or_default();
        match Authority::from_pem(certificate, secret.map(Vec::as_slice).unwrap_or_default()) {
            Ok(authority) => Some(authority),
            Err(error) => {
                self.damage.push(format!("{crt} and {key}: {error}"));
                let usable = Bundle::from_live(certificate);
                let usable = usable.certificates().iter().filter(|one| one.may_sign());
                self.orphans.extend(usable.cloned());
                None
            }
        }
    }

    fn read_retired(&mut self, data: &SecretData) {
        let Some(value) = data.get(RETIRED) else {
            return;
        };
        let Ok(entries) = serde_json::from_slice::<Vec<RetiredEntry>>(value) else {
            self.damage
                .push(format!("{RETIRED}: not the list that was written"));
            return;
        };
        for entry in entries {
            let bundle = Bundle::from_live(entry.certificate.as_bytes());
            let [certificate] = bundle.certificates() else {
                self.damage
                    .push(format!("{RETIRED}: an entry without a certificate"));
                continue;
            };
            self.state.retired.push(Retired {
                certificate: certificate.clone(),
                until: entry.until,
            });
        }
    }
}

impl From<&Retired> for RetiredEntry {
    fn from(retired: &Retired) -> Self {
        Self {
            certificate: retired.certificate.to_pem(),
            until: retired.until,
        }
    }
}

fn put(data: &mut SecretData, key: &str, value: impl Into<Vec<u8>>) {
    data.insert(key.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::testing::{at, authority};
    use proptest::prelude::*;

    fn full() -> State {
        State {
            current: Some(authority()),
            next: Some(Successor {
                authority: authority(),
                published: Some(at(1.5)),
            }),
            retired: vec![Retired {
                certificate: authority().certificate().clone(),
                until: at(60.0),
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let state = full();
        let stored = State::decode(&state.encode());
        assert_eq!(stored.state, state);
        assert_eq!(stored.damage, Vec::<String>::new());
        assert_eq!(state.bundle().certificates().len(), 3);
        assert_eq!(State::decode(&SecretData::new()), Stored::default());
    }

    #[test]
    fn a_ca_without_its_key_is_still_trusted_and_never_signs() {
        let state = full();
        let current = state.current.clone().unwrap();
        for key in [
            None,
            Some(&b""[..]),
            Some(b"garbage"),
            Some(authority().key().expose()),
        ] {
            let mut data = state.encode();
            data.remove(CURRENT_KEY);
            if let Some(key) = key {
                data.insert(CURRENT_KEY.into(), key.to_vec());
            }
            let stored = State::decode(&data);
            assert_eq!(stored.state.current, None);
            assert_eq!(stored.orphans, [current.certificate().clone()]);
            assert_eq!(stored.damage.len(), 1);
            assert_eq!(stored.state.next, state.next);
        }
    }

    #[test]
    fn each_damaged_value_costs_only_itself() {
        let state = full();
        let mut data = state.encode();
        data.insert(RETIRED.into(), b"[{}]".to_vec());
        data.insert(NEXT_PUBLISHED.into(), b"yesterday".to_vec());
        let stored = State::decode(&data);
        assert_eq!(stored.state.current, state.current);
        assert_eq!(stored.state.next.unwrap().published, None);
        assert_eq!(stored.state.retired, []);
    }

    #[test]
    fn no_damage_report_repeats_a_key() {
        let state = full();
        let key =
            String::from_utf8(state.current.as_ref().unwrap().key().expose().to_vec()).unwrap();
        let mut data = state.encode();
        data.insert(CURRENT_CRT.into(), key.replace('\n', "").into_bytes());
        data.insert(RETIRED.into(), key.clone().into_bytes());
        let text = format!("{:?}", State::decode(&data));
        for line in key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!text.contains(line), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_secret_can_be_read(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 6)) {
            let data: SecretData = ALL_KEYS.iter().map(|key| (*key).to_owned()).zip(values).collect();
            let stored = State::decode(&data);
            prop_assert_eq!(stored.state.current, None);
        }
    }
}
