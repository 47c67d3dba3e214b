package signature_results

import "context"

type myError struct{}

func (myError) Error() string { return "" }

//flow:step
func nothing(ctx context.Context) {}

//flow:step
func noError(ctx context.Context) string { return "" }

//flow:step
func errorFirst(ctx context.Context) (error, string) { return nil, "" }

//flow:step
func concrete(ctx context.Context) (int, myError) { return 0, myError{} }

//flow:step
func two(ctx context.Context) (int, string, error) { return 0, "", nil }

//flow:step
func named(ctx context.Context) (n int, err error) { return 0, nil }
