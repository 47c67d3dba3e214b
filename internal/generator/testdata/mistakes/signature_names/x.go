package signature_names

import "context"

//flow:step
func unnamed(context.Context, string, int) error { return nil }

//flow:step
func blank(ctx context.Context, _ string, n int) error { return nil }

//flow:step
func contextOnly(context.Context) error { return nil }

//flow:step
func blankContext(_ context.Context, n int) error { return nil }
