// Given to the page by tests/page/rollups.rs: rows made by hand, in every order in which watches may record them.
async () => {
  const { EARLY, GAP, Rows, SPAN, headline } = await import(`${location.origin}/rollup.js`);
  const BEGAN = Date.parse("2026-01-01T12:00:00Z");

  /// What happens after so many ms. `cause`: somebody asked for it of the Deployment itself.
  const change = (after, kind, name, type, { cause = false, owner = "web" } = {}) => ({
    after, kind, name, type, namespace: "shop", hand: false, summary: "",
    classes: cause ? ["image"] : ["status"], owner: { kind: "Deployment", namespace: "shop", name: owner },
  });
  /// The Namespace itself: made, asked to go, gone.
  const space = (after, type) => ({
    after, kind: "Namespace", name: "shop", type, namespace: "", hand: false, summary: type === "updated" ? "shop is terminating" : "",
    classes: ["lifecycle"], owner: { kind: "Namespace", name: "shop" },
  });
  /// What goes with it.
  const goes = (after, kind, name, type = "deleted", owner = { kind, namespace: "shop", name }) => ({ ...change(after, kind, name, type), classes: ["lifecycle"], owner });
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

  // The end of a namespace is one row, in whatever order the watches record it, and the Namespace's deletion stands for it.
  const maps = (after) => ["a", "b", "c"].map((name, n) => goes(after + n, "ConfigMap", name));
  for (const [order, deletion, rows] of [
    ["in order", 5, [space(0, "updated"), ...maps(100), space(200, "deleted")]],
    ["what goes comes last", 2, [space(0, "updated"), space(100, "deleted"), ...maps(200)]],
    ["what goes comes first", 5, [...maps(0), space(100, "updated"), space(200, "deleted")]],
    ["on both sides", 4, [...maps(0).slice(0, 2), space(100, "updated"), space(200, "deleted"), ...maps(300).slice(2)]],
    ["as late and as early as may be", 3, [goes(0, "ConfigMap", "a"), space(EARLY, "updated"), space(EARLY + 1, "deleted"), goes(2 * EARLY + 1, "ConfigMap", "b"), goes(2 * EARLY + 1, "Pod", "c")]],
    ["nobody saw it asked for", 4, [...maps(0), space(GAP, "deleted")]],
    ["nobody saw it asked for, and what goes comes last", 1, [space(0, "deleted"), ...maps(100)]],
  ]) {
    same(order, agree(order, recorded(rows)), [`${deletion}: ${rows.map((_, n) => n + 1)}`]);
  }
  // What went long before is no part of it, and neither is what goes in one that is made again.
  const apart = recorded([goes(0, "ConfigMap", "a"), space(EARLY + 1, "updated"), space(EARLY + 2, "deleted"), goes(2 * EARLY + 3, "ConfigMap", "b")]);
  same("apart", agree("apart", apart), ["4: 4", "3: 2,3", "1: 1"]);
  const again = recorded([space(0, "updated"), space(1, "deleted"), space(2, "created"), goes(3, "ConfigMap", "a"), space(4, "updated"), goes(5, "ConfigMap", "b"), space(6, "deleted"), goes(7, "ConfigMap", "c")]);
  same("again", agree("again", again), ["7: 4,5,6,7,8", "3: 3", "2: 1,2"]);
  // One that takes longer than a rollout may: what goes at first is with the one who asked, what goes last with its end.
  const long = recorded([space(0, "updated"), goes(SPAN / 2, "ConfigMap", "a"), goes(SPAN + 1, "ConfigMap", "b"), space(SPAN + 2, "deleted")]);
  same("long", agree("long", long), ["4: 3,4", "1: 1,2"]);

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

    // The end of a namespace with all that is in it, each watch with a delay of its own.
    const end = [space(0, "updated"), space(0, "deleted"), goes(0, "Deployment", "web")];
    for (let n = 0; n < 4; n += 1) end.push(goes(0, "ConfigMap", `map-${n}`), goes(0, "Pod", `web-${n}`, n % 2 ? "updated" : "deleted", { kind: "Deployment", namespace: "shop", name: "web" }));
    const ended = within(end, 0, EARLY);
    const [one, other] = ended.flatMap((row, index) => (row.kind === "Namespace" ? [index] : []));
    [ended[one], ended[other]] = [space(ended[one].after, "updated"), space(ended[other].after, "deleted")];
    const calm = [change(-2 * GAP, "Deployment", "web", "updated", { cause: true }), change(-2 * GAP + 1, "Pod", "web-0", "updated")];
    const whole = recorded([...calm, ...ended]);
    same(`seed ${seed}: an end`, agree(`seed ${seed}: an end`, whole), [`${other + 3}: ${whole.slice(2).map((row) => row.id)}`, "1: 1,2"]);

    // Namespaces that come and go all the time.
    const lives = [];
    for (let n = 0, now = 0, state = 0; n < 30; n += 1) {
      now += 1 + Math.floor(random() ** 3 * (random() < 0.05 ? SPAN : EARLY));
      if (random() < 0.4) lives.push(space(now, ["created", "updated", "deleted"][state++ % 3]));
      else lives.push(goes(now, "ConfigMap", `map-${n}`));
    }
    agree(`seed ${seed}: lives`, recorded(lives));

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
