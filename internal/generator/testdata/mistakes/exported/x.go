package exported

import "context"

// Service has methods of its own.
type Service struct{}

//flow:step
func (s *Service) Charge(ctx context.Context) error { return nil }

//flow:step as=Ship
func Ship(ctx context.Context) error { return nil }
