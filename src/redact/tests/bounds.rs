//! No blow-up: on the worst texts the time grows with their size.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::*;

/// Four times as much may take so many times as long: a scan that is linear takes four times, a quadratic one sixteen.
const GROWTH: f64 = 10.0;
/// So often it is measured again before it counts as a blow-up: other tests have the caches meanwhile.
const TRIES: usize = 4;

/// The time that this thread has worked: how busy the machine is, does not matter.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time")
}

/// How long a text takes at the door, in seconds.
fn took(text: &str) -> f64 {
    let (door, kind) = (door(), resource("", "ConfigMap"));
    let raw = json!({"metadata": {"name": "a"}, "data": {"note": text}}).to_string();
    let begin = worked();
    door.admit(&kind, raw.as_bytes()).expect("admitted");
    (worked() - begin).as_secs_f64()
}

/// Texts that are made of nothing but this.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "password: \"", "{\"", "token ", "key: |\n", "://a:", "-----BEGIN ", "eyJ.", "kind: Secret data: ",
    "a=b;password=c;", "mysql ", "passwords: {", "tokens:{a:", "\ntokens:\n a: b", "{a: b, password: c d, ",
    "password: {", "identified by '", "identified with ", "set password for ", "-----BEGIN a-----", "mongosh -u a ",
    "docker login ", "user a on >b ", "insert into a (password) values (", "insert into a (password) values ('",
    "define('password', 'a", "<name>password</name><value>", "name: PASSWORD\n", "cGFzc3dvcmQ6IGh1bnRlcjIK ",
    "cGFzc3dvcmQ6IGh1bnRlcjIKcGFzc3dvcmQ6IGh1bnRlcjIKcGFzc3dvcmQ6IGh1bnRlcjIK\n", "LoginModule user_a=\"",
    "mysql x --user u:pw ", "docker x login y stats auth a:b ", "rabbitmqctl x htpasswd -b a b c ",
    "htpasswd -b -htpasswd -b ", "sqlplus x echo a:b | chpasswd ", "curl x sqlplus -u a ", "mysql ';' ", "mc alias set a redis-cli ",
    "sshpass ldapsearch cqlsh -p ", "create secret --from-literal=a=b ", "{\"a\":1} ", "{\"kind\":\"Secret\"} ",
    "kind: Secret\ndata:\n  a: b\n---\n", "password:\n", "password: |\n", "password: &a\n", "password: # a\n",
    "tokens:\n- name: a\n  value: b\n", "tokens:\n- a\n", "token: a\n  b\n", "password = <<A\n", "password = $(cat <<A\n",
    "- name: PASSWORD\n  a: b\n", "- value: a\n  name: PASSWORD\n", "{value: a, name: PASSWORD, ", "password=b'a ",
    "password={a} ", "<password><![CDATA[", "last-applied-configuration:{", "postgres://a:b'c", "a_key: [", "password: [",
    "http://a@b ", "ftp://a:b@c/", "passwords: # a\n a: {\n",
];

#[test]
fn long_texts_take_linear_time() {
    let check = |name: &str, text: &dyn Fn(usize) -> String| {
        let (small, large) = (text(1 << 14), text(1 << 16));
        let growth = |_| took(&large) / took(&small);
        let least = (0..TRIES).map(growth).find(|growth| *growth < GROWTH);
        assert!(
            least.is_some(),
            "{name:?}: four times as much took more than {GROWTH} times as long, {TRIES} times over"
        );
    };
    let long = |part: &str, len: usize| part.repeat(len / part.len());
    for (which, part) in PARTS.iter().enumerate() {
        check(part, &|len| long(part, len));
        // What one of them looks for in vain, another one finds before it.
        let mixed = format!("{part}{}", PARTS[(which + 7) % PARTS.len()]);
        check(&mixed, &|len| long(&mixed, len));
    }
    // Below one name, what does not close.
    for (name, part) in [
        ("passwords:\n", " a: {\n"),
        ("passwords:\n", " a: {b: c\n"),
        ("passwords:\n", " - {a: [\n"),
        ("auth:\n", " a: \"b\n"),
        ("tokens:\n", "- a:\n  - b:\n"),
        ("tokens: {", "a: {b: \""),
    ] {
        check(&format!("{name}{part}"), &|len| format!("{name}{}", long(part, len)));
    }
    // Ever deeper.
    let nested = |part: &str, len: usize| -> String {
        (1..(2 * len).isqrt()).map(|depth| format!("{}{part}", " ".repeat(depth))).collect()
    };
    for part in ["passwords:\n", "a:\n", "- tokens:\n", "name: PASSWORD\n"] {
        check(part, &|len| format!("passwords:\n{}", nested(part, len)));
    }
}

/// Patterns that ask for the end of a word in any script are many times slower on a text in another one.
#[test]
fn a_text_in_another_script_is_read_as_fast() {
    let long = |part: &str| part.repeat((1 << 17) / part.len());
    let took = |text: &str| (0..3).map(|_| took(text)).fold(f64::MAX, f64::min);
    for part in
        ["mysql -u bob _ ", "kind: Secret _ data ", "identified _ ", "bearer _ ", "sig=_ key-_ ", "$1$_ pbkdf2 "]
    {
        let (plain, other) = (long(&part.replace('_', "ee")), long(&part.replace('_', "é")));
        let slower = (0..TRIES).map(|_| took(&other) / took(&plain)).find(|slower| *slower < 8.0);
        assert!(slower.is_some(), "{part}");
    }
}
