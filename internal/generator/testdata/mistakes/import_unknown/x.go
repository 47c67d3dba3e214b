package import_unknown

import (
	"context"

	"example.org/not/there"
)

//flow:step
func charge(ctx context.Context, t there.T) error { return nil }
