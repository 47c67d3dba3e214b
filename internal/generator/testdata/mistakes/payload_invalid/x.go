package payload_invalid

import (
	"context"

	"example.com/nowhere"
)

type order struct {
	Items []missing
}

//flow:step
func unknown(ctx context.Context, t absent) error { return nil }

//flow:step
func imported(ctx context.Context, t nowhere.T) error { return nil }

//flow:step
func inside(ctx context.Context, o order) error { return nil }
