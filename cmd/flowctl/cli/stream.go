package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) stream() *cobra.Command {
	var from uint64
	var follow bool
	cmd := &cobra.Command{
		Use: "stream RUN NAME", Short: "Print what a run has written to a stream, a chunk on each line", Args: cobra.ExactArgs(2), ValidArgsFunction: c.ids,
		Example: "  flowctl stream id:answer-17 words --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ctx, cancel, err := c.service(cmd.Context(), follow)
			defer cancel()
			if err != nil {
				return err
			}
			if follow {
				return c.followStream(ctx, s, args[0], args[1], from)
			}
			return c.readStream(ctx, s, args[0], args[1], from)
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "the chunk to begin with; 0: the first that is kept")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on as chunks come, until no more can")
	return cmd
}

// readStream prints the chunks that are there.
func (c *command) readStream(ctx context.Context, s admin.Service, ref, name string, from uint64) error {
	whole := admin.ChunkPage{Chunks: []admin.Chunk{}}
	for at := from; ; {
		page, err := s.Stream(ctx, ref, name, at, 0)
		if err != nil {
			return err
		}
		ref = page.Run // the workflow id could be another run's by the next page
		if c.hidden() {
			for i := range page.Chunks {
				page.Chunks[i].Value = hiddenValue
			}
		}
		if c.output == "json" {
			page.Chunks = append(whole.Chunks, page.Chunks...)
			whole = page
		} else {
			for i := range page.Chunks {
				if err := c.chunk(&page.Chunks[i]); err != nil {
					return err
				}
			}
		}
		if at = page.Next; at != 0 {
			continue
		}
		if c.output == "json" {
			return c.print(whole)
		}
		if !page.Ended {
			fmt.Fprintln(c.Stderr, "it is open still: --follow goes on")
		}
		return nil
	}
}

// followStream prints the chunks as they come. What is not kept any more is left out, and said.
func (c *command) followStream(ctx context.Context, s admin.Service, ref, name string, from uint64) error {
	for {
		var lag *admin.LagError
		for chunk, err := range s.FollowStream(ctx, ref, name, from) {
			if errors.As(err, &lag) {
				break
			}
			if c.hidden() {
				chunk.Value = hiddenValue
			}
			if err == nil {
				err = c.chunk(&chunk)
			}
			if err != nil {
				return err
			}
			from = chunk.Index + 1
		}
		if lag == nil {
			return ctx.Err()
		}
		fmt.Fprintln(c.Stderr, clean(lag.Error()))
		from, ref = lag.Next, lag.Run
	}
}

// hiddenValue stands for values that are not shown.
var hiddenValue = admin.Payload("null")

// chunk prints a chunk: its value, or all of it if the output is JSON.
func (c *command) chunk(chunk *admin.Chunk) error {
	if c.jsonOut() {
		return c.oneLine(chunk)
	}
	_, err := fmt.Fprintln(c.Stdout, clean(string(chunk.Value)))
	return err
}
