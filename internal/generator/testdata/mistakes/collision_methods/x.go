package collision_methods

import "context"

type shop struct{}

type depot struct{}

//flow:step
func (s *shop) ship(ctx context.Context, n int) error { return nil }

//flow:step
func (d *depot) ship(ctx context.Context, n int) error { return nil }

//flow:step
func (s *shop) pack(ctx context.Context) error { return nil }

//flow:step as=DepotPack
func (d *depot) pack(ctx context.Context) error { return nil }

//flow:step as=Pay
func payA(ctx context.Context) error { return nil }

//flow:step as=Pay
func payB(ctx context.Context) error { return nil }

//flow:step
func load(ctx context.Context, n int) error { return nil }

//flow:step
func loadArgs(ctx context.Context) error { return nil }
