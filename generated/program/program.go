// Command program is a program with steps: in stored names it is called by the
// last element of its import path.
package main

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func greet(ctx context.Context, name string) (string, error) { return "hello " + name, nil }

//flow:workflow
func welcome(ctx workflow.Context, name string) (string, error) { return Greet(ctx, name) }

func main() { fmt.Println(Welcome.Name()) }
