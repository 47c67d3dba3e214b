package collision_user

import "context"

//flow:step
func charge(ctx context.Context, n int) error { return nil }

// Charge is taken.
func Charge() {}

//flow:step
func refund(ctx context.Context, n int) error { return nil }

type refundArgs struct{}

var refundStep int

//flow:step
func ship(ctx context.Context, n int) error { return nil }

//flow:step
func inTest(ctx context.Context, n int) error { return nil }
