package values

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step retries=abc
func retriesText(ctx context.Context) error { return nil }

//flow:step retries=-1
func retriesNegative(ctx context.Context) error { return nil }

//flow:step retries=99999999999999999999
func retriesHuge(ctx context.Context) error { return nil }

//flow:step retries
func retriesNone(ctx context.Context) error { return nil }

//flow:step retries=
func retriesEmpty(ctx context.Context) error { return nil }

//flow:step retries = 5
func retriesSpaced(ctx context.Context) error { return nil }

//flow:step timeout=10
func timeoutUnit(ctx context.Context) error { return nil }

//flow:step timeout=-5s total=0s
func timeoutNegative(ctx context.Context) error { return nil }

//flow:workflow retention=7d
func retentionDays(ctx workflow.Context) error { return nil }

//flow:workflow queue=a/b
func queue(ctx workflow.Context) error { return nil }

//flow:step jitter=1.5
func jitter(ctx context.Context) error { return nil }

//flow:step jitter=NaN
func jitterNaN(ctx context.Context) error { return nil }

//flow:step nonidempotent=true
func flag(ctx context.Context) error { return nil }

//flow:step as=charge
func asLower(ctx context.Context) error { return nil }

//flow:step as=Two-Words name=x..y
func asWords(ctx context.Context) error { return nil }

//flow:step name=charge
func nameShort(ctx context.Context) error { return nil }

//flow:step name="a b.c"
func nameSpaced(ctx context.Context) error { return nil }

//flow:step retries=5 // because
func comment(ctx context.Context) error { return nil }

//flow:step name="open
func quote(ctx context.Context) error { return nil }

//flow:workflow children=0
func noChildren(ctx workflow.Context) error { return nil }
