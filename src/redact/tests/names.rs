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
    "oauth2_client_secret", "htpasswd", "keytab", "MEMCACHED_PASSWORD", "HTTP_PROXY_PASSWORD", "HTTP_PROXY_PASS",
    "GRPC_TOKEN", "PULL_TOKEN", "injectToken", "DB_PASSWORD_ADMIN", "PASSWORD_USER", "REDIS_PASSWORD_CACHE",
    "TOKEN_WEBHOOK", "TOKEN_SERVICE", "apiKeyBackend", "SECRET_KEY_SERVICE", "CLIENT_SECRET_ADMIN", "pin", "userPin",
    "SIM_PIN", "kubeconfigdata", "kubeconfigData", "DB_PW", "bindPW", "bind_pw", "rootpw", "DB_PASSWORT", "PASSKEY", "psk",
    "PresharedKey", "wpa_psk", "HASH_SALT", "SSHPASS", "snmpCommunityString", "userlist.txt", ".netrc",
    "storepass", "keypass", "srcstorepass",
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
    "podAntiAffinity", "signerName", "sidecar.istio.io/inject", "keepalive", "secretNames", "proxy_pass",
    "fastcgi_pass", "grpc_pass", "memcached_pass", "pullSecret", "IMAGE_PULL_SECRET", "existingSecretName",
    "vault.hashicorp.com/agent-inject-secret-db", "secretManager", "secrets-operator", "secretBackend",
    "external-secrets-controller", "credentials.user", "secret-reader", "token.sh", "auth.js", "secrets.md",
    "tokens.sql", "tokenList", "password-public", "pinned", "mapping", "pinCount", "ping", "SALT_MASTER", "salt-minion",
    "basalt", "communityEdition", "userlist_enable", "httpWrapper", "pwHistoryCount", "netrcFile", "TOKEN_LIFETIME",
    "JWT_ALGO", "password_encryption", "nginx.ingress.kubernetes.io/auth-secret", "haproxy.org/auth-secret",
    "nginx.ingress.kubernetes.io/auth-tls-secret", "argocd-image-updater.argoproj.io/web.pull-secret", "pullsecret",
];

#[test]
fn names_of_credentials_are_known() {
    let missed: Vec<_> =
        CREDENTIALS.iter().filter(|name| !is_credential(name) || !literals::suspicious(name)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// Through the door, as a name may be known here and have no literal by which it is looked for.
#[test]
fn every_word_masks_what_is_called_so() {
    let missed: Vec<_> = keys::WORDS
        .iter()
        .filter(|word| {
            let text = format!("port: 80\n{word}: hunter2-{word}\n");
            let object = serde_json::json!({"metadata": {"name": "a"}, "data": {**word: "hunter2", "file": text}});
            let data = &admit("ConfigMap", &object).value()["data"];
            !is_mask(&data[**word]) || data["file"].as_str().is_none_or(|text| text.contains("hunter2"))
        })
        .collect();
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

/// What stands in an object under the name of a credential and is none: each of these passes as it is.
#[test]
fn what_points_to_a_credential_or_describes_one_stays_readable() {
    let plain = serde_json::json!([
        {"secretRef": {"name": "db"}},
        {"passwordSecretRef": {"name": "db", "key": "pw"}},
        {"secretName": "db"},
        {"tokenRequests": [{"audience": "vault", "expirationSeconds": 3600}]},
        {"volumes": [{"name": "s", "secret": {"secretName": "db", "defaultMode": 420, "items": [{"key": "password", "path": "pw"}]}}]},
        {"envFrom": [{"prefix": "DB_", "secretRef": {"name": "db", "optional": true}}]},
        {"sources": [{"secret": {"name": "db", "items": [{"key": "a", "path": "b"}]}}]},
        {"secrets": [{"name": "default-token"}, {"name": "registry"}]},
        {"password": {"name": "db", "key": "pw", "optional": false}},
        {"basicAuth": {"username": {"name": "db", "key": "user"}, "password": {"name": "db", "key": "pw"}}},
        {"bearerTokenSecret": {"key": "token", "name": "prom"}},
        {"auth": {"type": "basic", "host": "ldap.example", "port": 636, "realm": "shop", "image": "auth:1.2", "replicas": 2}},
        {"auth": {"kubernetes": {"mountPath": "kubernetes", "role": "shop", "serviceAccountRef": {"name": "vault"}}}},
        {"privateKey": {"algorithm": "RSA", "size": 2048, "encoding": "PKCS1", "rotationPolicy": "Always"}},
        {"credentials": {"source": "Secret", "secretRef": {"namespace": "a", "name": "b", "key": "c"}}},
        {"secrets": {"enabled": true, "path": "/run/secrets", "db": {"secretName": "db"}, "refreshInterval": "1h"}},
        {"properties": {"password": {"type": "string", "description": "at least eight letters", "pattern": "^[a-z]+$", "minLength": 8, "enum": ["a"]},
            "tokens": {"type": "object", "additionalProperties": {"type": "string", "pattern": "x"}}}},
        {"jwtRules": [{"issuer": "https://issuer.example", "jwksUri": "https://issuer.example/keys", "audiences": ["shop"]}]},
    ]);
    for spec in plain.as_array().expect("a list") {
        let object =
            serde_json::json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        assert_eq!(admit("Thing", &object).value()["spec"], *spec);
        // The same as a file, and inside of a text.
        for text in [format!("{spec:#}"), format!("made of {spec} by hand")] {
            let object = serde_json::json!({"metadata": {"name": "a"}, "data": {"file": text}});
            assert_eq!(admit("ConfigMap", &object).value()["data"]["file"], text);
        }
    }
}

#[test]
fn what_stands_in_a_map_of_credentials_is_masked_whatever_it_is_called() {
    for (spec, at) in [
        (serde_json::json!({"passwords": {"alice": "x"}}), "/passwords/alice"),
        (serde_json::json!({"passwords": {"admin": "x"}}), "/passwords/admin"),
        (serde_json::json!({"passwords": {"user": 1234}}), "/passwords/user"),
        (serde_json::json!({"tokens": {"prod": {"reader": "x"}}}), "/tokens/prod/reader"),
        (serde_json::json!({"tokens": {"ci": ["x"]}}), "/tokens/ci/0"),
        (serde_json::json!({"apiKeys": {"webhook": {"value": "x"}}}), "/apiKeys/webhook/value"),
        (serde_json::json!({"auth": {"admin": "x"}}), "/auth/admin"),
        (serde_json::json!({"credentials": {"alice": "x"}}), "/credentials/alice"),
        (serde_json::json!({"password": {"key": "x"}}), "/password/key"),
        (serde_json::json!({"password": {"type": "string", "default": "x"}}), "/password/default"),
        (serde_json::json!({"ConnectionStrings": {"Default": "Server=db;User Id=bob"}}), "/ConnectionStrings/Default"),
    ] {
        let object =
            serde_json::json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let value = admit("Thing", &object).value();
        assert!(value["spec"].pointer(at).is_some_and(is_mask), "{at} in {}", value["spec"]);
    }
}

#[test]
fn a_list_of_secrets_keeps_no_value_of_any() {
    let list = serde_json::json!({"kind": "SecretList", "items": [{"metadata": {"name": "a"}, "data": {"foo": "aHVudGVyMg=="}},
        {"stringData": {"bar": "hunter2"}}]});
    let object = serde_json::json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": list, "note": list.to_string()});
    let value = admit("Thing", &object).value();
    assert!(
        is_mask(&value["spec"]["items"][0]["data"]["foo"]) && is_mask(&value["spec"]["items"][1]["stringData"]["bar"])
    );
    assert_eq!(value["spec"]["items"][0]["metadata"]["name"], "a");
    let text = value.to_string();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
}
