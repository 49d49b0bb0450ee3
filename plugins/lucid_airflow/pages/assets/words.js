// Times and counts as people say them.

const UNITS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

// "3 days ago", of an ISO time.
export function ago(iso) {
  const seconds = (new Date(iso).getTime() - Date.now()) / 1000;
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  }
  return "just now";
}

// "2026-11-23 14:05 UTC", of an ISO time.
export const moment = (iso) => `${new Date(iso).toISOString().slice(0, 16).replace("T", " ")} UTC`;

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// A number with no more digits than people read.
export function figure(number) {
  if (number == null) return "\u2013";
  const digits = Math.abs(number) >= 100 || Number.isInteger(number) ? 0 : Math.abs(number) >= 10 ? 1 : 2;
  return number.toLocaleString("en", { maximumFractionDigits: digits });
}

// Any setting's value as text.
export const plain = (value) =>
  value == null ? "\u2013" : typeof value === "number" ? figure(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
