package values_backoff

import "context"

//flow:step backoff=5s
func bare(ctx context.Context) error { return nil }

//flow:step backoff=exponental(1s,2s)
func shape(ctx context.Context) error { return nil }

//flow:step backoff=fibonacci(1s)
func unknown(ctx context.Context) error { return nil }

//flow:step backoff=constant(1s,2s)
func constant(ctx context.Context) error { return nil }

//flow:step backoff=constant(0s)
func zero(ctx context.Context) error { return nil }

//flow:step backoff=linear(1s)
func linear(ctx context.Context) error { return nil }

//flow:step backoff=linear(2s,1s)
func shrinking(ctx context.Context) error { return nil }

//flow:step backoff=exponential(1s,1m,0.5)
func factor(ctx context.Context) error { return nil }

//flow:step backoff=exponential(1s, 1m)
func spaced(ctx context.Context) error { return nil }

//flow:step backoff=exponential(x,1m)
func text(ctx context.Context) error { return nil }

//flow:step backoff="exponential(1s, 1m)"
func quoted(ctx context.Context) error { return nil }
