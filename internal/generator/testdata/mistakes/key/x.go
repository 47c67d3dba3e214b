package key

import (
	"context"
	"strings"
	"time"
)

type order struct {
	ID    string
	Lines []int
}

var region = "eu"

func both(o order) (string, error) { return "", nil }

//flow:step key=order.Idd
func field(ctx context.Context, order order) error { return nil }

//flow:step key=missing
func undefined(ctx context.Context, order order) error { return nil }

//flow:step key=order.ID+
func syntax(ctx context.Context, order order) error { return nil }

//flow:step key=order
func structure(ctx context.Context, order order) error { return nil }

//flow:step key=both(order)
func tuple(ctx context.Context, order order) error { return nil }

//flow:step key=order.Lines
func slice(ctx context.Context, order order) error { return nil }

//flow:step key="order.ID"
func quoted(ctx context.Context, order order) error { return nil }

//flow:step key=region
func global(ctx context.Context, order order) error { return nil }

//flow:step key=`"fixed"`
func constant(ctx context.Context, order order) error { return nil }

//flow:step key=ctx
func context_(ctx context.Context, order order) error { return nil }

//flow:step key=strings.ToLower(order.ID)+region
func good(ctx context.Context, order order) error { _ = strings.ToLower(""); return nil }

//flow:step key="func() string { return order.ID }()"
func literal(ctx context.Context, order order) error { return nil }

//flow:step key=n+err.Error()
func results(ctx context.Context, order order) (n string, err error) { return "", nil }

type shop struct{ name string }

//flow:step key=s.name+order.ID
func (s *shop) receiver(ctx context.Context, order order) error {
	local := "x"
	_ = local
	return nil
}

//flow:step key=local+order.ID
func inBody(ctx context.Context, order order) error {
	local := "x"
	_ = local
	return nil
}

//flow:step key=order.ID>"x"
func boolean(ctx context.Context, order order) error { return nil }

//flow:step key=at
func moment(ctx context.Context, at time.Time) error { return nil }

//flow:step key=at.Add(time.Duration(len(id)))
func laterMoment(ctx context.Context, at *time.Time, id string) error { return nil }

//flow:step key=int
func typeName(ctx context.Context, order order) error { return nil }
