package speed

import (
	"context"
	"errors"
	"io"
)

func sweep(context.Context, target, *options, *progress, io.Writer) error { return errors.New("x") }
