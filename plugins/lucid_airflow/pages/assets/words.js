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
  if (Number.isInteger(number) || Math.abs(number) >= 100) return number.toLocaleString("en", { maximumFractionDigits: 0 });
  return number.toLocaleString("en", { maximumSignificantDigits: 3 });
}

const TIMES = [[90, 1, "s"], [5_400, 60, "min"], [172_800, 3_600, "h"], [Infinity, 86_400, "days"]];

// "45 s", "12 min", "3.4 h", "2.1 days", as foundation/human_times.py has it.
export function duration(seconds) {
  if (seconds == null) return "\u2013";
  const [, length, unit] = TIMES.find(([below]) => Math.abs(seconds) < below);
  return `${figure(seconds / length)} ${unit}`;
}

// A mean time with its interval.
export const withInterval = (mean, low, high) => `${duration(mean)} (${duration(low)} to ${duration(high)})`;

// A number in its unit; seconds as a time that people would say.
export const amount = (number, unit) => (unit === "s" ? duration(number) : `${figure(number)} ${unit}`);

const SPOKEN = { fifo: "FIFO", gpu: "GPU", jct: "JCT", p50: "P50", p90: "P90", p99: "P99", p999: "P99.9" };
const UNIT = /_(s|ms|pct)$/;

// A name of the gate's as people say it: p999_queuing_delay_s is "P99.9 queuing delay".
export function spoken(name) {
  const words = name.replace(UNIT, "").split("_").map((word) => SPOKEN[word] ?? word).join(" ");
  return words[0].toUpperCase() + words.slice(1);
}

// Any setting's value as text.
export function plain(value) {
  if (value == null) return "\u2013";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return figure(value);
  if (Array.isArray(value)) return value.map(plain).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
