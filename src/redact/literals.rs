//! The short way to "nothing secret here": the literals that every sign of a secret has, and a filter of three letters
//! before them, which costs one table look-up a byte.

/// Names of credentials.
pub(super) const NAMES: u32 = 1;
pub(super) const URL: u32 = 1 << 1;
pub(super) const PEM: u32 = 1 << 2;
/// What base64 or gzip may hide.
pub(super) const PACKED: u32 = 1 << 3;
pub(super) const JWT: u32 = 1 << 4;
pub(super) const TOKEN: u32 = 1 << 5;
pub(super) const HEADER: u32 = 1 << 6;
pub(super) const AWS: u32 = 1 << 7;
pub(super) const CRYPT: u32 = 1 << 8;
pub(super) const COMMAND: u32 = 1 << 9;
pub(super) const MANIFEST: u32 = 1 << 10;
pub(super) const DSNS: u32 = 1 << 11;
pub(super) const SQL: u32 = 1 << 12;
/// Not within a longer word: `pin`, but not `mapping`.
const WORD: u32 = 1 << 13;
/// The shapes that are secret whatever name they stand under, and wherever: in the name of a field too.
pub(super) const SHAPES: u32 = URL | DSNS | PEM | PACKED | JWT | TOKEN | HEADER | AWS | CRYPT;

/// A literal, what it may be a sign of, and where in it the three letters stand that are looked for first: the rarest
/// ones in texts of a cluster.
const LITERALS: &[(&str, u32, usize)] = &[
    ("pass", NAMES, 0),
    ("pwd", NAMES, 0),
    ("secret", NAMES | MANIFEST, 2),
    ("token", NAMES, 1),
    ("key", NAMES, 0),
    ("cred", NAMES, 0),
    ("auth", NAMES, 1),
    ("dsn", NAMES, 0),
    ("jwt", NAMES, 0),
    ("conn", NAMES, 1),
    ("sas", NAMES, 0),
    ("mnemonic", NAMES, 0),
    ("bearer", NAMES | HEADER, 0),
    ("basic ", HEADER, 3),
    ("cookie", NAMES, 2),
    ("otp", NAMES, 0),
    ("pin", NAMES | WORD, 0),
    ("kubeconfigdata", NAMES, 9),
    ("dockerc", NAMES, 4),
    ("signature", NAMES, 2),
    ("last-applied", NAMES, 3),
    ("psk", NAMES, 0),
    ("_pw", NAMES, 0),
    ("-pw", NAMES, 0),
    ("bindpw", NAMES, 3),
    ("rootpw", NAMES, 3),
    ("adminpw", NAMES, 4),
    ("userpw", NAMES, 3),
    ("netrc", NAMES, 2),
    ("userlist", NAMES, 3),
    ("salt", NAMES, 0),
    ("community", NAMES, 4),
    ("://", URL, 0),
    ("@tcp(", DSNS, 0),
    ("@unix(", DSNS, 0),
    (":thin:", DSNS, 0),
    ("-----begin", PEM, 0),
    ("ls0tls1crudjti", PACKED, 0),
    ("eyj", JWT | PACKED, 0),
    ("h4si", PACKED, 0),
    // `{` with a line or a blank after it, and words of credentials at each of the three places in a group.
    ("ewo", PACKED, 0),
    ("eya", PACKED, 0),
    ("cgfzc3dvcm", PACKED, 3),
    ("bhc3n3b3jk", PACKED, 7),
    ("wyxnzd29yz", PACKED, 4),
    ("ueftu1dpuk", PACKED, 4),
    ("bbu1nxt1je", PACKED, 2),
    ("qqvntv09sr", PACKED, 0),
    ("c2vjcmv0", PACKED, 2),
    ("nly3jld", PACKED, 2),
    ("zzwnyzx", PACKED, 0),
    ("u0vdukvu", PACKED, 4),
    ("nfq1jfv", PACKED, 2),
    ("trunsrv", PACKED, 3),
    ("dg9rzw", PACKED, 1),
    ("rva2vu", PACKED, 3),
    ("0b2tlb", PACKED, 1),
    ("ve9lru", PACKED, 2),
    ("rps0vo", PACKED, 2),
    ("ut0tft", PACKED, 2),
    ("chjpdmf0z", PACKED, 1),
    ("byaxzhdg", PACKED, 2),
    ("wcml2yxrl", PACKED, 0),
    // Private keys without PEM around them.
    ("ibadanbgkqhkig9w0", PACKED, 7),
    ("ibaakc", PACKED, 3),
    ("mhccaqeei", PACKED, 1),
    ("ageambmgbyqgsm49", PACKED, 8),
    ("mc4caqawbqydk2vw", PACKED, 7),
    ("akia", AWS, 0),
    ("asia", AWS, 0),
    ("aida", AWS, 0),
    ("aroa", AWS, 0),
    ("ghp_", TOKEN, 0),
    ("gho_", TOKEN, 0),
    ("ghu_", TOKEN, 0),
    ("ghs_", TOKEN, 0),
    ("ghr_", TOKEN, 0),
    ("github_pat_", TOKEN, 5),
    ("xox", TOKEN, 0),
    ("xapp-", TOKEN, 0),
    ("k_live_", TOKEN, 0),
    ("k_test_", TOKEN, 0),
    ("aiza", TOKEN, 0),
    ("npm_", TOKEN, 1),
    ("glpat-", TOKEN, 0),
    ("gldt-", TOKEN, 0),
    ("glrt-", TOKEN, 0),
    ("hvs.", TOKEN, 0),
    ("hvb.", TOKEN, 0),
    ("ya29.", TOKEN, 0),
    ("sg.", TOKEN, 0),
    ("dop_v1_", TOKEN, 1),
    ("doo_v1_", TOKEN, 2),
    ("dor_v1_", TOKEN, 2),
    ("dckr_pat_", TOKEN, 0),
    ("pypi-", TOKEN, 0),
    ("sk-", TOKEN, 0),
    ("gocspx-", TOKEN, 2),
    ("shpat_", TOKEN, 0),
    ("shpss_", TOKEN, 0),
    ("shpca_", TOKEN, 0),
    ("shppa_", TOKEN, 0),
    ("age-secret-key-1", TOKEN, 13),
    ("hooks.slack.com", TOKEN, 3),
    ("/api/webhooks/", TOKEN, 6),
    ("sig=", TOKEN, 1),
    (":aa", TOKEN, 0),
    ("hf_", TOKEN, 0),
    ("glsa_", TOKEN, 1),
    ("glc_", TOKEN, 0),
    ("dapi", TOKEN, 0),
    ("nrak-", TOKEN, 1),
    ("dt0", TOKEN, 0),
    (".atlasv1.", TOKEN, 4),
    ("lin_api_", TOKEN, 2),
    ("sntrys_", TOKEN, 3),
    ("sntryu_", TOKEN, 3),
    ("pscale_", TOKEN, 0),
    ("pmak-", TOKEN, 2),
    ("rubygems_", TOKEN, 2),
    ("key-", TOKEN, 1),
    ("ltai", TOKEN, 0),
    ("glptt-", TOKEN, 1),
    ("glcbt-", TOKEN, 1),
    ("glft-", TOKEN, 0),
    ("glimt-", TOKEN, 2),
    ("glsoat-", TOKEN, 0),
    ("glagent-", TOKEN, 0),
    ("dp.", TOKEN, 0),
    (".office.com/webhook", TOKEN, 10),
    ("hooks.zapier.com", TOKEN, 6),
    ("/hooks/", TOKEN, 4),
    ("$apr1$", CRYPT, 0),
    ("$2a$", CRYPT, 0),
    ("$2b$", CRYPT, 0),
    ("$2y$", CRYPT, 0),
    ("$1$", CRYPT, 0),
    ("$5$", CRYPT, 0),
    ("$6$", CRYPT, 0),
    ("$y$", CRYPT, 0),
    ("$7$", CRYPT, 0),
    ("$argon2", CRYPT, 1),
    ("$scrypt$", CRYPT, 0),
    ("pbkdf2", CRYPT, 0),
    ("{sha", CRYPT, 0),
    ("{ssha", CRYPT, 0),
    ("{md5}", CRYPT, 0),
    ("{smd5}", CRYPT, 1),
    ("{crypt}", CRYPT, 0),
    ("{argon2}", CRYPT, 0),
    ("scram-sha-", CRYPT, 4),
    ("mysql", COMMAND, 1),
    ("sshpass", COMMAND, 1),
    ("redis-cli", COMMAND, 4),
    ("curl", COMMAND, 1),
    (" -u", COMMAND, 0),
    ("--user", COMMAND, 0),
    ("mariadb", COMMAND, 4),
    ("valkey-cli", COMMAND, 5),
    ("mongo", COMMAND, 2),
    ("cqlsh", COMMAND, 0),
    ("ldap", COMMAND, 0),
    (" login ", COMMAND, 2),
    ("-creds", COMMAND, 0),
    ("mc alias", COMMAND, 0),
    ("mc config", COMMAND, 0),
    ("aws configure", COMMAND, 0),
    ("htpasswd", COMMAND, 0),
    ("chpasswd", COMMAND, 0),
    ("rabbitmqctl", COMMAND, 6),
    ("sqlplus", COMMAND, 1),
    ("smbclient", COMMAND, 1),
    ("stats auth", COMMAND, 2),
    ("loginmodule", COMMAND, 4),
    ("from-literal", COMMAND, 5),
    (" on >", COMMAND, 2),
    (" on #", COMMAND, 2),
    ("identified", SQL, 7),
    ("set password", SQL, 2),
];

/// One bit for each three letters that a literal is looked for by. Letters are taken without their case; what is no
/// letter shares its place with one.
static TRIGRAMS: [u64; 512] = trigrams();

const fn trigrams() -> [u64; 512] {
    let mut table = [0u64; 512];
    let mut i = 0;
    while i < LITERALS.len() {
        let window = window(i);
        table[window >> 6] |= 1 << (window & 63);
        i += 1;
    }
    table
}

/// The three letters of each literal and its place in [`LITERALS`], sorted.
static WINDOWS: [(u16, u8); LITERALS.len()] = windows();

const fn windows() -> [(u16, u8); LITERALS.len()] {
    assert!(LITERALS.len() <= 256);
    let mut windows = [(0, 0); LITERALS.len()];
    let mut i = 0;
    while i < LITERALS.len() {
        let one = (window(i) as u16, i as u8);
        let mut at = i;
        while at > 0 && windows[at - 1].0 > one.0 {
            windows[at] = windows[at - 1];
            at -= 1;
        }
        windows[at] = one;
        i += 1;
    }
    windows
}

const fn window(literal: usize) -> usize {
    let (literal, _, at) = LITERALS[literal];
    let bytes = literal.as_bytes();
    ((bytes[at] & 31) as usize) << 10 | ((bytes[at + 1] & 31) as usize) << 5 | (bytes[at + 2] & 31) as usize
}

/// Calls `hit` with each literal's place and class, until it says to stop.
#[inline]
fn each(text: &str, mut hit: impl FnMut(usize, u32) -> bool) {
    let bytes = text.as_bytes();
    let mut window = 0usize;
    for (i, &byte) in bytes.iter().enumerate() {
        window = (window << 5 | (byte & 31) as usize) & 0x7fff;
        if TRIGRAMS[window >> 6] >> (window & 63) & 1 == 1 && verify(bytes, i, window, &mut hit) {
            return;
        }
    }
}

#[inline(never)]
fn verify(bytes: &[u8], end: usize, window: usize, hit: &mut impl FnMut(usize, u32) -> bool) -> bool {
    let first = WINDOWS.partition_point(|(of, _)| usize::from(*of) < window);
    for &(_, i) in WINDOWS[first..].iter().take_while(|(of, _)| usize::from(*of) == window) {
        let (literal, class, at) = LITERALS[usize::from(i)];
        let Some(start) = (end + 1).checked_sub(3 + at) else { continue };
        let found = bytes.get(start..start + literal.len());
        if found.is_some_and(|found| found.eq_ignore_ascii_case(literal.as_bytes()))
            && (class & WORD == 0 || is_word(bytes, start, literal.len()))
            && hit(start, class & !WORD)
        {
            return true;
        }
    }
    false
}

/// Whether no word goes on before it or after it; a capital begins a word, as in `userPin`.
fn is_word(bytes: &[u8], start: usize, len: usize) -> bool {
    let begins = match start.checked_sub(1).map(|at| bytes[at]) {
        Some(before) if before.is_ascii_alphabetic() => {
            bytes[start].is_ascii_uppercase() && (before.is_ascii_lowercase() || bytes[start + 1].is_ascii_lowercase())
        }
        _ => true,
    };
    begins && !bytes.get(start + len).is_some_and(u8::is_ascii_alphabetic)
}

/// Whether any literal occurs.
pub(super) fn suspicious(text: &str) -> bool {
    let mut found = false;
    each(text, |_, _| {
        found = true;
        true
    });
    found
}

/// Which literals occur.
pub(super) fn classes(text: &str) -> u32 {
    let mut found = 0;
    each(text, |_, class| {
        found |= class;
        false
    });
    found
}

/// Which literals occur, and where those that may be names of credentials begin.
pub(super) fn occurring(text: &str) -> (u32, Vec<usize>) {
    let (mut found, mut names) = (0, Vec::new());
    each(text, |start, class| {
        found |= class;
        if class & NAMES != 0 {
            names.push(start);
        }
        false
    });
    (found, names)
}
