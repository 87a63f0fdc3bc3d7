//! Which names are names of credentials, and which only sound so.

use super::*;
use crate::redact::keys::is_credential;

#[rustfmt::skip]
const CREDENTIALS: &[&str] = &[
    "password", "Password", "PASSWORD", "passwd", "pwd", "DB_PASSWORD", "dbPassword", "db-password", "db.password",
    "PGPASSWORD", "MYSQL_ROOT_PASSWORD", "password1", "PASSWORD_PROD", "DBPassword", "passphrase", "DB_PASS",
    "smtp.pass", "requirepass", "secret", "clientSecret", "client_secret", "CLIENT_SECRET", "clientsecret",
    "JWT_SECRET", "AUTH_SECRET", "secretKey", "secret-key-base", "token", "accessToken", "access_token", "API_TOKEN",
    "GITHUB_TOKEN", "TOKEN_GITHUB", "authtoken", "refreshToken", "bearerToken", "apikey", "apiKey", "api_key",
    "api-key", "API_KEY", "X-API-Key", "accessKey", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "privateKey",
    "private_key", "PRIVATE-KEY", "ssh-privatekey", "encryptionKey", "signing_key", "AccountKey", "SharedAccessKey",
    "SharedAccessSignature", "credential", "credentials", "creds", "auth", "basicAuth", "_auth", "_authToken",
    "Authorization", "connectionString", "CONNECTION_STRING", "ConnectionStrings", "dsn", "SENTRY_DSN", "jwt",
    ".dockerconfigjson", "client-key-data", "example.com/api-key", "spring.datasource.password",
    "oauth2_client_secret", "htpasswd", "keytab",
];

/// Fields of the core API, and other names that describe or point to a credential.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "secretName", "secretRef", "secretKeyRef", "secretNamespace", "imagePullSecrets", "imagePullSecret",
    "tokenExpirationSeconds", "automountServiceAccountToken", "serviceAccountToken", "authorization-mode", "author",
    "authority", "nodePublishSecretRef", "controllerExpandSecretRef", "controllerPublishSecretRef",
    "nodeStageSecretRef", "nodeExpandSecretRef", "tokenRequests", "secretFile", "existingSecret",
    "existingSecretPasswordKey", "passwordSecretRef", "passwordFile", "DB_PASSWORD_FILE", "tokenPath", "secretPath",
    "key", "keys", "name", "value", "configMapKeyRef", "topologyKey", "matchLabelKeys", "publicKey", "public_key",
    "keyring", "keyType", "privateKeySecretRef", "credentialsSecretName", "authenticationMode", "authenticated",
    "oauthProxy", "monkey", "keyboard", "passthrough", "passThrough", "bypass", "compass", "tokenizer", "secretless",
    "maxTokens", "MAX_TOKENS", "AWS_ACCESS_KEY_ID", "tokenUrl", "tokenReview", "secretProviderClass", "secret-store",
    "auth.conf", "secrets.yaml", "kubernetes.io/service-account.name", "authorizationMode", "passCount",
    "secret.reloader.stakater.com/reload", "passwordPolicy", "pwdPolicy", "connectionTimeout", "connectTimeout",
    "dsnPolicy", "accessModes", "useToken", "chapAuthDiscovery", "chapAuthSession", "token-audience", "caBundle",
    "tls.crt", "ca.crt", "serviceAccountName", "allowedSecrets.names", "containers", "replicas", "sessionAffinity",
    "podAntiAffinity", "signerName", "sidecar.istio.io/inject", "keepalive", "secretNames",
];

#[test]
fn names_of_credentials_are_known() {
    let missed: Vec<_> =
        CREDENTIALS.iter().filter(|name| !is_credential(name) || !literals::suspicious(name)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn names_that_only_point_to_credentials_are_not() {
    let wrong: Vec<_> = OTHERS.iter().filter(|name| is_credential(name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_pod_that_uses_secrets_and_tokens_passes_as_it_is() {
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "auth"}, "spec": {
        "serviceAccountName": "token-reader", "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "regcred"}],
        "containers": [{"name": "auth", "image": "auth:1.2", "args": ["--authorization-mode=RBAC", "--token-ttl=5m", "--secure-port", "443"],
            "env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                    {"name": "URL", "value": "https://vault.example:8200/v1/secret"}, {"name": "TOKEN", "value": "$(OTHER)"}],
            "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
        "volumes": [{"name": "s", "secret": {"secretName": "db", "defaultMode": 420, "items": [{"key": "password", "path": "pw"}]}},
            {"name": "kube-api-access-x", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token", "audience": "vault"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
        "tolerations": [{"key": "auth", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]},
        "status": {"message": "MountVolume.SetUp failed for volume \"s\" : secret \"db\" not found"}});
    assert_eq!(admit("Pod", &pod).value(), pod);
}
