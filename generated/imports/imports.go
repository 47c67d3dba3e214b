// Package imports has names that get in the way of generated code: parameters
// and declarations called like packages, imports under other names, dot
// imports. It calls steps and workflows of package functions.
package imports

import (
	stdctx "context"
	"encoding/json"
	"fmt"
	. "net/netip"
	"time"

	wf "github.com/flowgen/flowgen/runtime/workflow"

	other "github.com/flowgen/flowgen/generated/imports/types"
	"github.com/flowgen/flowgen/generated/imports/v2"
)

// errors is not the package.
var errors = []string{"a"}

// a, f and ctx are names that generated code would invent.
type (
	a   struct{ N int }
	f   struct{ N int }
	ctx struct{ N int }
)

// ErrGone is final.
var ErrGone = fmt.Errorf("gone")

//flow:step fatal=ErrGone timeout=5s
func named(context stdctx.Context, time time.Duration, workflow string, json json.RawMessage) (Addr, error) {
	return Addr{}, nil
}

//flow:step
func local(_ stdctx.Context, ctx ctx, a a) (f, error) { return f{}, nil }

//flow:step
func shadowed(c stdctx.Context, f f, string string, error bool) (string2 string, err error2) {
	return "", nil
}

type error2 = error

//flow:step
func versions(c stdctx.Context, x types.T, y other.T, z map[other.Key]*other.List[types.T]) (struct {
	A int `json:"a"`
	other.T
}, error) {
	return struct {
		A int `json:"a"`
		other.T
	}{}, nil
}

//flow:workflow
func flow(shim wf.Context, r string, in a) (ctx, error) { return ctx{}, nil }

var _ = errors
