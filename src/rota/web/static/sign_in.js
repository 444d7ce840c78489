import "./common.js";
import { $ } from "./dom.js";
import { call } from "./api.js";

const form = $("#sign-in");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await call("POST", "/web/sign-in", { token: form.elements.token.value });
    location.assign(form.dataset.next);
  } catch (error) {
    $("#sign-in-answer").textContent = error.message;
  }
});
