// Package names chooses the Go names and the stored names of what is generated, and declares names that generated code
// would like to use itself.
//
//flow:package name=shop.v2 register=RegisterAll steps=AllSteps
package names

import (
	"context"

	wf "github.com/flowgen/flowgen/runtime/workflow"
)

// Register is the user's own.
func Register() {}

// Steps is the user's own.
type Steps struct{}

type north struct{}

type south struct{}

//flow:step
func (*north) ship(ctx context.Context, n int) error { return nil }

//flow:step as=SouthShip name=shop.v2.southShip
func (*south) ship(ctx context.Context, n int) error { return nil }

// charge keeps the stored name that it had in another package.
//
//flow:step as=Bill name=old_shop.charge
func charge(ctx context.Context) error { return nil }

// Charge is the user's own.
func Charge() {}

// get and link have initialisms in the names of their counterparts.
//
//flow:step as=HTTPGet
func get(ctx context.Context, url string) error { return nil }

//flow:step as=URL
func link(ctx context.Context, id string) (string, error) { return id, nil }

// transfer has kept the stored names of parameters that were renamed.
//
//flow:workflow as=Move wire=from:src,to:dst
func transfer(ctx wf.Context, from, to string) error { return Ship(ctx, 1) }

// audit has one parameter, which was renamed.
//
//flow:workflow wire=account:customer
func audit(ctx wf.Context, account string) error { return Note(ctx, account) }

//flow:step wire=line:text
func note(ctx context.Context, line string) error { return nil }
