package names

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/generated/names/time"
	wf "github.com/flowgen/flowgen/runtime/workflow"
)

var r, in, err, ctx, f, a, shim, workflow, errors, time2 int

// Shop and shop ask for the same parameter of Register.
type Shop struct{}

type shop struct{}

// Shop2 is a result.
type Shop2 struct{}

func shopReceiver() {}

//flow:step timeout=3s fatal=errX key=x.String()
func (s *Shop) one(ctx context.Context, x P, r, in, f, a int) (int, error) { return 0, nil }

//flow:step
func (s shop) two(ctx context.Context, err error2) (*Shop2, error) { return nil, nil }

type error2 string

// P prints itself.
type P string

// String returns the text.
func (p P) String() string { return string(p) }

var errX = fmt.Errorf("x")

//flow:step total=1h
func three(ctx context.Context, t time.Time, struct_ struct{ time.T }) (map[string]time.T, error) {
	return nil, nil
}

//flow:workflow
func four(r wf.Context, in, ctx, f string) error { return nil }

//flow:workflow
func five(wf.Context) error { return nil }

//flow:workflow
func six(_ wf.Context, ctx int) error { return nil }

//flow:step
func chargeArgs(context.Context) error { return nil }

// T is an error.
//
//flow:error
type T struct{ A int }

func (T) Error() string { return "" }

// parcel has a name that Register could take, if its body did not mean the type.
type parcel struct{ ID string }

//flow:step
func (*parcel) wrap(ctx context.Context) error { return nil }

//flow:workflow
func seven(c wf.Context, p parcel) error { return Wrap(c) }
