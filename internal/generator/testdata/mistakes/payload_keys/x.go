package payload_keys

import (
	"context"
	"net/netip"
)

type id int

type point struct{ X, Y int }

//flow:step
func good(ctx context.Context, a map[string]int, b map[id]bool, c map[netip.Addr]string) error {
	return nil
}

//flow:step
func bad(ctx context.Context, a map[point]int, b map[float64]int, c map[bool]int, d map[any]int, e []map[[2]int]bool) error {
	return nil
}
