// What pages read, kept up to date: JSON of this product's routes, with the login that Airflow's pages have.

const { useEffect, useState } = globalThis.React;
const AGAIN_MS = 15_000;
const STILL_MS = 400;
const ACTED = "lucid-acted";
const AFTER_ACTING_MS = [500, 3_000, 7_000];

// The address of one of our routes, wherever Airflow is mounted: <base href> says so.
export const address = (path) => new URL(`lucid/${path}`, document.baseURI).href;

// A refusal in the server's words: FastAPI has a sentence, or a list of what is wrong with which field.
const refusal = (status, detail) =>
  new Error((typeof detail === "string" ? detail : detail?.map?.((each) => each.msg).join(" ")) || `The server answered ${status}.`);

// What an address answers with JSON, sent JSON where there is a `body`.
export async function askJson(url, { method = "GET", body } = {}) {
  const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }) };
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw refusal(response.status, answer.detail);
  return answer;
}

export const read = (path) => askJson(address(`api/${path}`));

export const useReading = (path) => useAnswer(() => read(path), path);

// Tells everything that is read on this page that something was done, so that it looks again soon.
export const acted = () => document.dispatchEvent(new Event(ACTED));

// { value, problem }: what `ask` answered last, and why there is no newer answer. Asked again while the page is
// seen and after something was done on it, and anew for another `key`.
export function useAnswer(ask, key, againMs = AGAIN_MS) {
  const [state, setState] = useState({ value: null, problem: null });
  useEffect(() => {
    let gone = false;
    const look = async () => {
      if (document.hidden) return;
      try {
        const value = await ask();
        if (!gone) setState({ value, problem: null });
      } catch (error) {
        if (!gone) setState((before) => ({ ...before, problem: error.message }));
      }
    };
    look();
    const timer = setInterval(look, againMs);
    const lookSoon = () => AFTER_ACTING_MS.forEach((ms) => setTimeout(() => gone || look(), ms));
    document.addEventListener("visibilitychange", look);
    document.addEventListener(ACTED, lookSoon);
    return () => {
      gone = true;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      document.removeEventListener(ACTED, lookSoon);
    };
  }, [key]);
  return state;
}

// { value, problem, busy }: a route's answer, asked once when its path has stood still for a moment; a path that
// is not set asks nothing. The answer to the path before stays until there is a newer one.
export function useLook(path) {
  const [state, setState] = useState({ value: null, problem: null, busy: false });
  useEffect(() => {
    if (!path) {
      setState({ value: null, problem: null, busy: false });
      return undefined;
    }
    let gone = false;
    const keep = (answer) => gone || setState({ value: null, problem: null, busy: false, ...answer });
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(() => {
      read(path).then(
        (value) => keep({ value }),
        (error) => keep({ problem: error.message }),
      );
    }, STILL_MS);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [path]);
  return state;
}

// Sends a file to the server's folder of uploads; `progress` is told the share that is sent. What is kept:
// { path, size_bytes, kept_until }.
export function sendFile(file, name, progress = () => {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(`api/ingest/uploads?${new URLSearchParams({ name })}`));
    request.responseType = "json";
    request.upload.onprogress = (event) => progress(event.loaded / (event.total || 1));
    request.onload = () =>
      request.status === 200
        ? resolve(request.response)
        : reject(refusal(request.status, request.response?.detail));
    request.onerror = () => reject(new Error("The server did not take the file: it may be too large, or the connection ended."));
    request.send(file);
  });
}
