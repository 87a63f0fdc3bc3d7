// Asks for a bearer token when the API wants one. It stays in this tab, and goes when the tab is closed.

import * as api from "./api.js";
import { copy, button, h } from "./dom.js";

const COMMAND = "kubectl create token NAME -n NAMESPACE";

/// Resolves when a token was given that the API takes.
export function signIn(failure) {
  return new Promise((done) => {
    const said = h("p", { class: "said", role: "alert" }, api.token() ? failure.message : "");
    const input = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true, spellcheck: "false", autofocus: true });
    const form = h(
      "form",
      { class: "sign-in", method: "dialog" },
      h("h2", { id: "sign-in-title" }, "Sign in"),
      h("p", {}, "kubediff shows you what you may see by kubectl. It asks the API server who you are by a bearer token:"),
      h("p", { class: "try" }, h("code", {}, COMMAND), button("Copy", () => copy(COMMAND, "the command"))),
      h("label", { for: "token" }, "Token"),
      input,
      said,
      h("button", { type: "submit", class: "primary" }, "Sign in"),
    );
    const dialog = h("dialog", { class: "sign-in-dialog", "aria-labelledby": "sign-in-title" }, form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      api.setToken(input.value.trim());
      said.textContent = "Asking …";
      try {
        await api.get("whoami");
        dialog.close();
        dialog.remove();
        done();
      } catch (wrong) {
        if (wrong.status === 401) api.setToken(undefined);
        said.textContent = `${wrong.message} ${wrong.remedy ?? ""}`;
        input.select();
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
