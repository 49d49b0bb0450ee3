// What pages read, kept up to date: JSON of this product's routes, with the login that Airflow's pages have.

const { useEffect, useState } = globalThis.React;
const AGAIN_MS = 15_000;
const ACTED = "lucid-acted";
const AFTER_ACTING_MS = [500, 3_000, 7_000];

// The address of one of our routes, wherever Airflow is mounted: <base href> says so.
export const address = (path) => new URL(`lucid/${path}`, document.baseURI).href;

async function read(path) {
  const response = await fetch(address(`api/${path}`), { headers: { Accept: "application/json" } });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.detail || `The server answered ${response.status}.`);
  return body;
}

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
