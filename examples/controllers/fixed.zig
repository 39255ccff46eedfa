//! A window of 50 packets, in Zig. The structs are those of ccarena.h.
const About = extern struct { abi: u32, flags: u32, name: [*:0]const u8, summary: [*:0]const u8, params: ?*const anyopaque, params_count: u32, reserved: u32 };
const Config = extern struct { mss_bytes: u32, initial_window_packets: u32, slow_start: u32, params_count: u32, weight: f64, header_bytes: u32, reserved: [5]u32, params: [32]f64 };
const Control = extern struct { window_bytes: f64, pacing_bps: f64, threshold_bytes: f64, timer_ns: u64, reserved: [4]u32 };
const State = struct { window: f64 };

const about = About{ .abi = 1, .flags = 0, .name = "fixed", .summary = "Keeps a window.", .params = null, .params_count = 0, .reserved = 0 };
var state: State = undefined;
var room: [64]u64 = undefined;

export fn cc_describe() *const About {
    return &about;
}
export fn cc_scratch() *[64]u64 {
    return &room;
}
export fn cc_create(config: *const Config, out: *Control) *State {
    state = .{ .window = 50 * @as(f64, @floatFromInt(config.mss_bytes)) };
    out.window_bytes = state.window;
    return &state;
}
export fn cc_on_ack(_: *State, _: *const anyopaque, _: *Control) void {}
