package collision_dot_import

import (
	"context"
	Buy "strconv"
	. "strings"
)

//flow:step
func fields(ctx context.Context, s string) error { _ = ToUpper(Buy.Quote(s)); return nil }

//flow:step
func buy(ctx context.Context, s string) error { return nil }
