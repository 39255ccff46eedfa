// Runs a scheme and a policy of ccarena on a toy link from Go: host [POLICY.safetensors]
//
// Build it with CGO_CFLAGS="-I FOLDER_OF_HEADERS -I .." and CGO_LDFLAGS="-L FOLDER_OF_LIBRARY -lccarena".
package main

/*
#include <stdlib.h>
#include "link.h"
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// Flow is the controller of a connection. One goroutine at a time may use it.
type Flow struct{ handle *C.ccarena_flow }

// Free ends the flow; it may not be used afterwards.
func (f Flow) Free() { C.ccarena_free(f.handle) }

func facts() C.ccarena_facts {
	return C.ccarena_facts{abi: C.CCARENA_ABI, mss_bytes: C.MSS, header_bytes: 52, reports: C.REPORTS, seed: 1}
}

// reason makes an error of a code and the text that came with it; nil if the call is done.
func reason(code C.int32_t, why []byte) error {
	if code == C.CCARENA_OK {
		return nil
	}
	return fmt.Errorf("%s: %s", C.GoString(C.ccarena_text(code)), C.GoString((*C.char)(unsafe.Pointer(&why[0]))))
}

// Scheme creates a flow that runs the scheme called name.
func Scheme(name string) (Flow, error) {
	var flow Flow
	connection, why := facts(), make([]byte, 300)
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	code := C.ccarena_create(text, nil, 0, &connection, &flow.handle, (*C.char)(unsafe.Pointer(&why[0])), 300)
	return flow, reason(code, why)
}

// Policy creates a flow for which the artifact decides.
func Policy(artifact []byte) (Flow, error) {
	var flow Flow
	var policy *C.ccarena_policy
	connection, why := facts(), make([]byte, 300)
	text := (*C.char)(unsafe.Pointer(&why[0]))
	bytes := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(artifact)))
	if err := reason(C.ccarena_policy_read(bytes, C.size_t(len(artifact)), &policy, text, 300), why); err != nil {
		return flow, err
	}
	defer C.ccarena_policy_free(policy)
	return flow, reason(C.ccarena_create_policy(policy, nil, 0, &connection, &flow.handle, text, 300), why)
}

// measure runs the flow on 20 Mbit/s, 40 ms and a buffer of a bandwidth-delay product.
func measure(name string, flow Flow) error {
	defer flow.Free()
	sender := (*C.host)(C.calloc(1, C.sizeof_host))
	defer C.free(unsafe.Pointer(sender))
	link := C.link_facts{mbps: 20, rtt_ns: 40000000, buffer_packets: 69, end_ns: 20000000000}
	var out C.outcome
	if code := C.run(sender, flow.handle, &link, &out); code != C.CCARENA_OK {
		why := make([]byte, 300)
		C.ccarena_why(flow.handle, (*C.char)(unsafe.Pointer(&why[0])), 300)
		return reason(C.int32_t(code), why)
	}
	fmt.Printf("%s: %.2f Mbit/s, RTT %.1f ms, %d packets lost\n", name, float64(out.mbps), float64(out.rtt_ms), out.lost_packets)
	return nil
}

func main() {
	flow, err := Scheme("cubic")
	if err == nil {
		err = measure("cubic", flow)
	}
	if err == nil && len(os.Args) > 1 {
		var artifact []byte
		if artifact, err = os.ReadFile(os.Args[1]); err == nil {
			if flow, err = Policy(artifact); err == nil {
				err = measure(os.Args[1], flow)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
