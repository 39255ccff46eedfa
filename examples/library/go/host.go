// Runs a scheme and a policy of ccarena on a toy link from Go: host [POLICY.safetensors]
//
// Build it in this folder with CGO_CFLAGS="-I FOLDER_OF_HEADERS -I $(realpath ..)" and
// CGO_LDFLAGS="-L FOLDER_OF_LIBRARY -lccarena". Folders are absolute paths.
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

// Policy is an artifact that was read once. Flows of it share its weights, and may outlive it.
type Policy struct{ handle *C.ccarena_policy }

// Read reads an artifact.
func Read(artifact []byte) (Policy, error) {
	var policy Policy
	why := make([]byte, 300)
	bytes := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(artifact)))
	code := C.ccarena_policy_read(bytes, C.size_t(len(artifact)), &policy.handle, (*C.char)(unsafe.Pointer(&why[0])), 300)
	return policy, reason(code, why)
}

// Free frees the policy; flows of it go on.
func (p Policy) Free() { C.ccarena_policy_free(p.handle) }

// Flow creates a flow for which the policy decides.
func (p Policy) Flow() (Flow, error) {
	var flow Flow
	connection, why := facts(), make([]byte, 300)
	text := (*C.char)(unsafe.Pointer(&why[0]))
	return flow, reason(C.ccarena_create_policy(p.handle, nil, 0, &connection, &flow.handle, text, 300), why)
}

// Operated creates a flow with the policy in the shadow of CUBIC (shadow 1), or under a guard that hands the flow to
// CUBIC after guard decisions in a row on observations that the policy's training did not see.
func (p Policy) Operated(shadow, guard C.uint32_t) (Flow, error) {
	var flow Flow
	connection, why := facts(), make([]byte, 300)
	text, cubic := (*C.char)(unsafe.Pointer(&why[0])), C.CString("cubic")
	defer C.free(unsafe.Pointer(cubic))
	code := C.ccarena_create_operated(p.handle, nil, 0, &connection, cubic, shadow, guard, &flow.handle, text, 300)
	return flow, reason(code, why)
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
	fmt.Printf("%s: %.2f Mbit/s, RTT %.1f ms, %d packets lost, role %d\n",
		name, float64(out.mbps), float64(out.rtt_ms), out.lost_packets, C.ccarena_role(flow.handle))
	return nil
}

// compare measures the policy in file alone, in the shadow of CUBIC and under a guard.
func compare(file string) error {
	artifact, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	policy, err := Read(artifact)
	if err != nil {
		return err
	}
	defer policy.Free()
	for _, each := range []struct {
		name   string
		create func() (Flow, error)
	}{
		{file, policy.Flow},
		{"in the shadow of cubic", func() (Flow, error) { return policy.Operated(1, 0) }},
		{"guarded by cubic", func() (Flow, error) { return policy.Operated(0, 8) }},
	} {
		flow, err := each.create()
		if err == nil {
			err = measure(each.name, flow)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	flow, err := Scheme("cubic")
	if err == nil {
		err = measure("cubic", flow)
	}
	if err == nil && len(os.Args) > 1 {
		err = compare(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
