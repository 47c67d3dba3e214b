package predeclared

import (
	"context"
	"errors"
)

const nil = 0

var true = 1

type bool string

var errGone = errors.New("gone")

type shop struct{}

//flow:step nonidempotent fatal=errGone
func (shop) sell(ctx context.Context) error { return errGone }
