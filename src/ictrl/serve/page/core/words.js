// Numbers and dates as the page says them.

export const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A share in per cent; what is not quite nothing or not quite all is not called so. */
export function percent(value) {
  if (value > 0 && value < 0.01) return "<1%";
  if (value > 0.99 && value < 1) return ">99%";
  return `${Math.round(value * 100)}%`;
}

/** The change of a share, in points: +2, −1, ±0. */
export function points(before, after) {
  const change = Math.round(after * 100) - Math.round(before * 100);
  return change === 0 ? "±0" : change > 0 ? `+${change}` : `−${-change}`;
}

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** A distance, as long as it needs to be to be compared. */
export function distance(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2).replace("-", "−");
}

/** One share in so many: 0.05 -> "5 in 100". */
export const inHundred = share => `${+(share * 100).toFixed(1)} in 100`;

const DAY = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const MINUTE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
export const day = moment => DAY.format(new Date(moment));
export const minute = moment => MINUTE.format(new Date(moment));
