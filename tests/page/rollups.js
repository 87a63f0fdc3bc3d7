// Given to the page by tests/page/rollups.rs: rows made by hand, in every order in which watches may record them.
async () => {
  const { EARLY, GAP, Rows, headline } = await import(`${location.origin}/rollup.js`);
  const BEGAN = Date.parse("2026-01-01T12:00:00Z");

  /// What happens after so many ms. `cause`: somebody asked for it of the Deployment itself.
  const change = (after, kind, name, type, { cause = false, owner = "web" } = {}) => ({
    after, kind, name, type, namespace: "shop", hand: false, summary: "",
    classes: cause ? ["image"] : ["status"], owner: { kind: "Deployment", namespace: "shop", name: owner },
  });
  /// Recorded in the order in which they are.
  const recorded = (changes) => changes.map((one, index) => ({ ...one, seq: index + 1, id: `${index + 1}`, time: new Date(BEGAN + one.after).toISOString() }));
  /// Heard as they happen, some at a time; read back by pages; or the one in the middle of the other.
  const live = (rows, known = new Rows(false), size = 3) => {
    for (let at = 0; at < rows.length; at += size) known.addNewer(rows.slice(at, at + size).map((row) => ({ ...row })));
    return known;
  };
  const back = (rows, known = new Rows(false), size = 4) => {
    const newest = rows.toReversed();
    for (let at = 0; at < newest.length; at += size) known.addOlder(newest.slice(at, at + size).map((row) => ({ ...row })));
    return known;
  };
  const both = (rows, at) => back(rows.slice(0, at >> 1), live(rows.slice(at), back(rows.slice(at >> 1, at))));
  /// Newest first, as they are shown.
  const told = ({ groups }) => groups.map((group) => `${headline(group).id}: ${group.rows.map((row) => row.id).sort((a, b) => a - b)}`);
  const generator = (seed) => () => {
    // mulberry32
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const wrong = [];
  const same = (what, got, want) => JSON.stringify(got) === JSON.stringify(want) || wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);

  /// The same whichever way they become known.
  const agree = (what, rows) => {
    const want = told(live(rows));
    same(`${what}, read back`, told(back(rows)), want);
    for (const at of [1, rows.length >> 1, rows.length - 1]) same(`${what}, read back from ${at} and heard after`, told(both(rows, at)), want);
    return want;
  };

  for (let seed = 1; seed <= 200; seed += 1) {
    const random = generator(seed);
    const shuffled = (some) => some.map((one) => [random(), one]).sort((a, b) => a[0] - b[0]).map(([, one]) => one);
    const within = (some, from, ms) => {
      const times = some.map(() => from + Math.floor(random() * ms)).sort((a, b) => a - b);
      return shuffled(some).map((one, index) => ({ ...one, after: times[index] }));
    };

    // One rollout: all of it is one group, whatever of it was recorded first, and its cause stands for it.
    const first = [change(0, "Deployment", "web", "updated", { cause: true }), change(0, "ReplicaSet", "web-2", "created"), change(0, "ReplicaSet", "web-1", "updated"), change(0, "Pod", "web-2-a", "created"), change(0, "Pod", "web-1-a", "updated"), change(0, "Deployment", "web", "updated")];
    const rest = [change(9_000, "Pod", "web-2-a", "updated"), change(12_000, "Pod", "web-1-a", "deleted"), change(60_000, "Deployment", "web", "updated")];
    const rollout = recorded([...within(first, 0, EARLY), ...rest]);
    const cause = rollout.find((row) => row.classes.includes("image"));
    same(`seed ${seed}: a rollout`, agree(`seed ${seed}: a rollout`, rollout), [`${cause.id}: ${rollout.map((row) => row.id)}`]);

    // What was on its way without a cause, and long before, stays by itself.
    const before = [change(-60_000, "Pod", "web-1-a", "updated"), change(-30_000, "Pod", "web-1-a", "updated")];
    const later = recorded([...before, ...within(first, 0, EARLY), ...rest]);
    const asked = later.find((row) => row.classes.includes("image"));
    same(`seed ${seed}: after unrest`, agree(`seed ${seed}: after unrest`, later), [`${asked.id}: ${later.slice(2).map((row) => row.id)}`, "1: 1,2"]);

    // Two rollouts on each other's heels: what came while the first was going on stays with it.
    const second = change(20_000, "Deployment", "web", "updated", { cause: true });
    const two = recorded([change(0, "Deployment", "web", "updated", { cause: true }), change(10, "ReplicaSet", "web-2", "created"), change(19_000, "Pod", "web-2-a", "created"), change(19_999, "Pod", "web-1-a", "deleted"), second, change(20_001, "ReplicaSet", "web-3", "created")]);
    same("two rollouts", agree("two rollouts", two), ["5: 5,6", "1: 1,2,3,4"]);

    // Anything at all, of three owners.
    const any = [];
    let at = 0;
    for (let n = 0; n < 40; n += 1) {
      at += Math.floor(random() ** 3 * (random() < 0.1 ? 2 * GAP : EARLY));
      const asked = random() < 0.2;
      any.push(change(at, asked ? "Deployment" : "Pod", asked ? "" : `pod-${n}`, "updated", { cause: asked, owner: ["a", "b", "c"][Math.floor(random() * 3)] }));
    }
    for (const one of any) if (one.kind === "Deployment") one.name = one.owner.name;
    agree(`seed ${seed}: anything`, recorded(any));
  }
  return wrong.slice(0, 5);
}
