//! TLS as configured: protocols, versions, suites, certificates that change, clients that must show theirs.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, NamedGroup,
    ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{
        CryptoProvider, aws_lc_rs,
        cipher::{OutboundChunks, OutboundPlainMessage},
    },
    pki_types::ServerName,
    version,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::support::*;
use crate::{
    server::{Options, client_auth, tls},
    settings::{
        ClientCa,
        tls::{ServedGroup, ServedSuite, TlsSettings},
    },
};

fn speaking(authority: &Authority, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_no_client_auth()
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken() {
    let server = start(Options::default());
    for (version, negotiated) in [
        (&version::TLS12, ProtocolVersion::TLSv1_2),
        (&version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let config = speaking(&server.authority, &[version]);
        let mut client = server.connect_as(config).await.unwrap();
        assert_eq!(client.0.get_ref().1.protocol_version(), Some(negotiated));
        assert_eq!(client.post("/echo", "hello").await.unwrap(), ok("hello"));
    }
}

#[tokio::test]
async fn tls_1_2_is_turned_away_when_it_is_off() {
    let server = start_speaking(&TlsSettings {
        tls12: false,
        ..usual()
    });
    let old = speaking(&server.authority, &[&version::TLS12]);
    assert!(server.connect_as(old).await.is_err());
    assert_eq!(
        server.connect().await.post("/echo", "x").await.unwrap(),
        ok("x")
    );
}

#[tokio::test]
async fn suites_and_groups_are_those_configured() {
    let server = start_speaking(&TlsSettings {
        tls12: true,
        cipher_suites: vec![
            ServedSuite::EcdheEcdsaChacha20Poly1305Sha256,
            ServedSuite::Tls13Aes128GcmSha256,
        ],
        groups: vec![ServedGroup::Secp384r1],
    });
    for (version, suite) in [
        (
            &version::TLS12,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (&version::TLS13, CipherSuite::TLS13_AES_128_GCM_SHA256),
    ] {
        let config = speaking(&server.authority, &[version]);
        let client = server.connect_as(config).await.unwrap();
        let connection = client.0.get_ref().1;
        let negotiated = connection.negotiated_cipher_suite().unwrap().suite();
        assert_eq!(negotiated, suite);
        let group = connection.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group, NamedGroup::secp384r1);
    }
}

#[tokio::test]
async fn other_settings_hold_for_the_connections_that_come_after() {
    let server = start(Options::default());
    let mut before = server.connect().await;
    assert_eq!(before.post("/echo", "1").await.unwrap(), ok("1"));
    let strict = TlsSettings {
        tls12: false,
        ..usual()
    };
    let config = tls::configure(&strict, None, server.certificate.clone()).unwrap();
    server.tls.store(config);
    assert_eq!(before.post("/echo", "2").await.unwrap(), ok("2"));
    let old = speaking(&server.authority, &[&version::TLS12]);
    assert!(server.connect_as(old).await.is_err());
}

/// The first message of a handshake, without the header of its record.
fn hello(config: &ClientConfig) -> Vec<u8> {
    let name = ServerName::try_from(NAME).unwrap();
    let mut client = ClientConnection::new(Arc::new(config.clone()), name).unwrap();
    let mut record = Vec::new();
    client.write_tls(&mut record).unwrap();
    record.split_off(5)
}

/// TLS 1.2 lets a client begin another handshake within a connection, which costs the server far more than the client.
#[tokio::test]
async fn a_client_that_renegotiates_is_refused_and_one_that_insists_is_dropped() {
    let server = start(Options::default());
    let suite = aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
    let provider = CryptoProvider {
        cipher_suites: vec![suite],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS12])
        .unwrap()
        .with_root_certificates(server.authority.roots())
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    let again = hello(&config);
    let mut client = server.connect_as(config).await.unwrap();
    assert_eq!(client.post("/echo", "x").await.unwrap(), ok("x"));

    // No client of ours renegotiates, so from here on the records are made by hand, with the connection's own key.
    let (mut stream, connection) = client.0.into_inner();
    let secrets = connection.dangerous_extract_secrets().unwrap();
    let (sequence, ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets.tx else {
        panic!("another suite was negotiated");
    };
    let SupportedCipherSuite::Tls12(suite) = suite else {
        panic!("it is no suite of TLS 1.2");
    };
    let mut encrypter = suite.aead_alg.encrypter(key, iv.as_ref(), &[]);
    for number in 0..4 {
        let message = OutboundPlainMessage {
            typ: ContentType::Handshake,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(&again),
        };
        let record = encrypter.encrypt(message, sequence + number).unwrap();
        // It may be dropped already.
        let _ = stream.write_all(&record.encode()).await;
    }
    let mut answer = Vec::new();
    let ended = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection goes on");
    // Whether it reads the rest or not, what it says are alerts, and no handshake begins.
    let mut records = answer.as_slice();
    while let [kind, _, _, high, low, rest @ ..] = records {
        assert_eq!(*kind, u8::from(ContentType::Alert), "{answer:?}");
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        records = rest.get(length..).unwrap_or_default();
    }
    assert_eq!(server.metrics.ended_for("broken"), 1);
    let mut other = server.connect().await;
    assert_eq!(other.post("/echo", "y").await.unwrap(), ok("y"));
}

#[tokio::test]
async fn http_1_1_is_the_only_protocol() {
    let server = start(Options::default());
    let offering = |protocols: &[&str]| {
        let mut config = server.authority.client();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        config
    };
    let mut client = server
        .connect_as(offering(&["h2", "http/1.1"]))
        .await
        .unwrap();
    assert_eq!(client.0.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(client.post("/echo", "x").await.unwrap(), ok("x"));
    assert!(server.connect_as(offering(&["h2"])).await.is_err());

    // Prior knowledge of HTTP/2 is no way in either.
    let mut client = server.connect().await;
    client
        .write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let answer = client.read().await;
    assert!(answer.is_err() || answer.unwrap().code >= 400);
}

#[tokio::test]
async fn a_new_certificate_drops_no_connection() {
    let server = start(Options::default());
    let mut before = server.connect().await;
    assert_eq!(before.post("/echo", "1").await.unwrap(), ok("1"));
    let (renewed, key) = server.authority.issue(NAME);
    server.certificate.swap((renewed.clone(), key));
    assert_eq!(before.post("/echo", "2").await.unwrap(), ok("2"));
    let mut after = server.connect().await;
    assert_eq!(
        after.0.get_ref().1.peer_certificates().unwrap(),
        &[renewed][..]
    );
    assert_eq!(after.post("/echo", "3").await.unwrap(), ok("3"));
    assert_eq!(before.post("/echo", "4").await.unwrap(), ok("4"));
}

#[tokio::test]
async fn only_clients_of_the_ca_with_a_name_that_is_allowed_get_in() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.crt");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    let ca = ClientCa {
        file: ca_file,
        allowed_names: vec!["apiserver".into()],
    };
    let server = start_with(Options::default(), &usual(), Some(&ca), authority);
    let showing = |issuer: &Authority, name: &str| {
        let (certificate, key) = issuer.issue(name);
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(server.authority.roots())
            .with_client_auth_cert(vec![certificate], key)
            .unwrap()
    };
    for (config, gets_in) in [
        (showing(&server.authority, "apiserver"), true),
        (showing(&server.authority, "somebody"), false),
        (showing(&Authority::new(), "apiserver"), false),
        (server.authority.client(), false),
    ] {
        let answered = match server.connect_as(config).await {
            // With TLS 1.3 a client learns of its refusal only when it reads.
            Ok(mut client) => client.post("/echo", "x").await.is_ok(),
            Err(_) => false,
        };
        assert_eq!(answered, gets_in);
    }
    server.has_ended("handshake_failed", 3).await;
}

#[test]
fn a_client_ca_file_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.crt");
    std::fs::write(&empty, "nothing").unwrap();
    for file in [empty, PathBuf::from("/no/such/file")] {
        let ca = ClientCa {
            file: file.clone(),
            allowed_names: Vec::new(),
        };
        let provider: CryptoProvider = aws_lc_rs::default_provider();
        let error = client_auth::verifier(&ca, Arc::new(provider)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(file.to_str().unwrap()), "{shown}");
    }
}
