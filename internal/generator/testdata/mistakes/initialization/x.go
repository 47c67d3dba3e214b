package initialization

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

var errLoop = build()

func build() error {
	_ = flow
	return nil
}

//flow:step fatal=errLoop
func charge(ctx context.Context) error { return nil }

//flow:workflow
func flow(ctx workflow.Context) error { return Charge(ctx) }

var prefix = first()

func first() string { var c workflow.Context; _ = Ship(c, "x"); return "" }

//flow:step key=prefix+id
func ship(ctx context.Context, id string) error { return nil }

func recursive(id string) string { var c workflow.Context; _ = Pack(c, id); return id }

//flow:step key=recursive(id)
func pack(ctx context.Context, id string) error { return nil }
