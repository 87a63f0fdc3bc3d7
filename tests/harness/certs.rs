//! The harness's own certificate authority. One for the process, so that a proxy or a receiver can stand in for any
//! server that the clients of a control plane trust.

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

/// The authority that signs everything in this run.
pub static CA: LazyLock<Ca> = LazyLock::new(Ca::create);

pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    der: CertificateDer<'static>,
}

/// A certificate with its key.
pub struct Identity {
    pub cert_pem: String,
    pub key_pem: String,
    cert: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Ca {
    /// Another authority than [`CA`], for certificates that nobody should trust.
    pub fn create() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kubediff test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        Self { pem: cert.pem(), der: cert.der().clone(), issuer: Issuer::new(params, key) }
    }

    /// For a server on loopback.
    pub fn server(&self) -> Identity {
        self.sign(
            &["127.0.0.1", "localhost", "kubernetes.default.svc"],
            "kubediff test server",
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// For a client that has to show who it is.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(&[], name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], common_name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names are valid");
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
            cert: cert.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        }
    }

    /// For reqwest clients that should trust this authority and no other.
    pub fn reqwest(&self) -> reqwest::Certificate {
        reqwest::Certificate::from_der(&self.der).expect("the certificate is DER")
    }

    /// A TLS server with a certificate of this authority; `client_auth` refuses clients that show none of its own.
    pub fn server_config(&self, client_auth: bool) -> Arc<ServerConfig> {
        super::install_tls_provider();
        let identity = self.server();
        let builder = if client_auth {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone()).expect("the authority is a root");
            ServerConfig::builder()
                .with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().expect("a verifier"))
        } else {
            ServerConfig::builder().with_no_client_auth()
        };
        let config = builder.with_single_cert(vec![identity.cert], PrivateKeyDer::Pkcs8(identity.key));
        Arc::new(config.expect("the key fits the certificate"))
    }
}

/// A private key and its public half, for signing service account tokens.
pub fn key_pair_pem() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    (key.serialize_pem(), key.public_key_pem())
}
