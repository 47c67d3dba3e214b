package policies

import (
	"context"
	"fmt"
	s "strings"
)

// Order has an identity.
type Order struct {
	ID    string
	Lines []int
}

// Number prints itself.
type Number struct{ N int }

// String returns the number.
func (n Number) String() string { return fmt.Sprint(n.N) }

const region = "eu"

func normal(text string) string { return s.TrimSpace(text) }

//flow:step key=order.ID
func field(ctx context.Context, order Order) (int, error) { return 0, nil }

//flow:step key=n
func itself(ctx context.Context, n Number) error { return nil }

//flow:step key="region + s.ToLower(normal(name)) + \" x\""
func expression(ctx context.Context, name string) error { return nil }

//flow:step key=order.Lines[len(order.Lines)-1]*2
func integer(ctx context.Context, order *Order) error { return nil }

// bill has a parameter named like the package that the generated code calls,
// and a key that uses it.
//
//flow:step key=shim+billStep
func bill(ctx context.Context, shim string, billStep string) (string, error) { return shim, nil }
