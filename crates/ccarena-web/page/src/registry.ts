// What the engine offers: schemes, queue disciplines, applications and the rest, with their parameters. The engine sends it
// when it is loaded; the page has no list of its own.

export interface Param {
  name: string;
  doc: string;
  unit?: string;
  default: number;
  min: number;
  max: number;
}
export interface Entry {
  name: string;
  summary: string;
  params: Param[];
}
export interface Scheme extends Entry {
  learned: boolean;
  /** Router that it needs. */
  assisted: string | null;
  /** Needs a rule file. */
  rules: boolean;
  requirement: boolean;
  /** Least weight, if it has one. */
  weight_above: number | null;
}
export interface Queue extends Entry {
  /** Its default by unit; null if it has no limit. */
  limit: "required" | null | Record<string, number>;
}
export interface Application {
  name: string;
  fields: string[];
}
export interface Registry {
  schemes: Scheme[];
  queues: Queue[];
  accesses: Entry[];
  routers: Entry[];
  applications: Application[];
  cellular: { name: string; summary: string; mean_mbps: number }[];
  models: { name: string; summary: string }[];
}
