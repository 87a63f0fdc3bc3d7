// The live tail: changes as they are made, until paused; goes on where it was after an interruption.

import * as api from "./api.js";

/// Rows that wait at most. While somebody has paused for long, further ones are only counted, and all is read again after.
const MOST = 1000;
/// Between tries, in ms: doubled each time up to the second.
const [SOON, LATE] = [500, 15_000];

export class Tail {
  /// `heard(rows)` gets what is new, `changed(tail)` is called when `state` changes: "off", "connecting", "live", "lost".
  /// `behind()` when the server no longer has what came between: all must be read again.
  constructor({ heard, changed, behind }) {
    Object.assign(this, { heard, changed, behind });
    this.state = "off";
    this.paused = false;
    this.#forget();
  }

  /// What waits: its rows, and their number, which may be larger.
  #forget() {
    this.held = [];
    this.waiting = 0;
  }

  /// Resolves when the server has said that it listens, or that it does not: what is read then has no gap to the tail.
  start(filters) {
    this.stop();
    this.control = new AbortController();
    this.lastId = undefined;
    return new Promise((ready) => this.#run(filters, this.control.signal, ready));
  }

  stop() {
    this.control?.abort();
    this.#forget();
    this.#enter("off");
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) this.#give();
    this.changed(this);
  }

  #give() {
    const { held, waiting } = this;
    this.#forget();
    if (waiting > held.length) this.behind("So much has changed meanwhile that everything is read again.");
    else if (held.length) this.heard(held);
  }

  async #run(filters, signal, ready) {
    let wait = SOON;
    while (!signal.aborted) {
      this.#enter(this.state === "lost" ? "lost" : "connecting");
      try {
        await api.stream(filters, this.lastId, {
          signal,
          opened: () => {
            wait = SOON;
            this.#enter("live");
            ready();
          },
          heard: (message) => this.#take(message),
        });
      } catch (failure) {
        ready();
        if (signal.aborted || failure.status === 401) return;
        this.why = failure.message;
      }
      if (signal.aborted) return;
      this.#enter("lost");
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, LATE);
    }
  }

  #take({ id, event, data }) {
    if (id) this.lastId = id;
    if (event === "behind") return this.behind();
    if (event !== "change") return undefined;
    this.waiting += 1;
    if (this.held.length < MOST) this.held.push(JSON.parse(data));
    if (this.paused) return this.changed(this);
    // The clock of a tab that nobody looks at stands still for a minute.
    if (this.held.length === MOST) return this.#give();
    // Many at once are drawn once.
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      if (!this.paused) this.#give();
    }, 60);
    return undefined;
  }

  #enter(state) {
    if (this.state === state) return;
    this.state = state;
    this.changed(this);
  }
}
