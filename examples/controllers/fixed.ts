// A window of 50 packets, in AssemblyScript. Offsets are those of the structs in ccarena.h.
const NAME = String.UTF8.encode("fixed", true);
const SUMMARY = String.UTF8.encode("Keeps a window.", true);
const ABOUT = memory.data(28), ROOM = memory.data(512);

export function cc_scratch(): usize { return ROOM; }
export function cc_describe(): usize {
  store<u32>(ABOUT, 1);                                   // abi
  store<usize>(ABOUT, changetype<usize>(NAME), 8);        // name
  store<usize>(ABOUT, changetype<usize>(SUMMARY), 12);    // summary
  return ABOUT;
}
export function cc_create(config: usize, out: usize): usize {
  store<f64>(out, 50 * <f64>load<u32>(config));           // window_bytes, from mss_bytes
  return 0;
}
export function cc_on_ack(self: usize, ack: usize, out: usize): void {}
