package control_characters

import "context"

//flow:step name=[31mred
func charge(ctx context.Context) error { return nil }

//flow:step key="id + \"\u001b[0m\u202e\n\""
func ship(ctx context.Context, id string, n int) error { return nil }

//flow:step key="\n::error::x"
func send(ctx context.Context, id string, n int) error { return nil }
