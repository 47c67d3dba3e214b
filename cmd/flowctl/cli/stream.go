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
		Use: "stream RUN [NAME]", Short: "Print the chunks of a stream of a run, one per line, or list its streams", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: c.streamArgs,
		Long: "Stream prints the chunks that a run, including its ContinueAsNew successors, has written to a stream. Without a name it lists the\n" +
			"streams: FIRST is the first retained chunk, LAST the last written one. An ended stream gets no more chunks.",
		Example: "  flowctl stream id:answer-17\n  flowctl stream id:answer-17 words --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && (follow || from != 0) {
				return &admin.InputError{What: "follow: no stream is given", Fix: "give a name: flowctl stream RUN lists the streams of a run"}
			}
			s, ctx, cancel, err := c.service(cmd.Context(), follow)
			defer cancel()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return c.listStreams(ctx, s, args[0])
			}
			if follow {
				return c.followStream(ctx, s, args[0], args[1], from)
			}
			return c.readStream(ctx, s, args[0], args[1], from)
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "number of the first chunk; 0: the first retained one")
	cmd.Flags().BoolVar(&follow, "follow", false, "print new chunks as they are written, until the stream ends")
	return cmd
}

// streamArgs completes a run, and then the names of the streams of that run.
func (c *command) streamArgs(cmd *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.ids(cmd, args, to)
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		list, _ := s.Streams(ctx, args[0], admin.StreamFilter{})
		for i := range list.Streams {
			all = append(all, clean(list.Streams[i].Name))
		}
		return all
	})
}

// listStreams prints all streams of a run.
func (c *command) listStreams(ctx context.Context, s service, ref string) error {
	all, err := streamsOf(ctx, s, ref)
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.print(all)
	}
	printed, err := printEach(c, all.Streams, func(one *admin.StreamState) string { return one.Name })
	if printed || err != nil || len(all.Streams) == 0 {
		return err
	}
	t := newTable(c.Stdout, "STREAM", "FIRST", "LAST", "STATE", "ID")
	for i := range all.Streams {
		one := &all.Streams[i]
		t.row(one.Name, fmt.Sprint(one.First), fmt.Sprint(one.Last), streamState(one), one.ID)
	}
	return t.end()
}

func streamState(one *admin.StreamState) string {
	if one.Ended {
		return "ended"
	}
	return "open"
}

// streamsOf returns all streams of a run.
func streamsOf(ctx context.Context, s service, ref string) (all admin.StreamList, err error) {
	for f := (admin.StreamFilter{Limit: 1000}); ; f.After = all.Next {
		page, err := s.Streams(ctx, ref, f)
		if err != nil {
			return page, err
		}
		page.Streams = append(all.Streams, page.Streams...)
		if all = page; all.Next == "" {
			return all, nil
		}
	}
}

// readStream prints the chunks that exist at the time of the call.
func (c *command) readStream(ctx context.Context, s service, ref, name string, from uint64) error {
	whole := admin.ChunkPage{Chunks: []admin.Chunk{}}
	for at := from; ; {
		page, err := s.Stream(ctx, ref, name, at, 0)
		if err != nil {
			return err
		}
		ref = page.Run // Use the run ID, because the workflow ID may belong to another run when the next page is requested.
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
			fmt.Fprintln(c.Stderr, "the stream is still open: use --follow to print new chunks")
		}
		return nil
	}
}

// followStream prints chunks as they arrive. It skips and reports chunks that the store does not
// retain.
func (c *command) followStream(ctx context.Context, s service, ref, name string, from uint64) error {
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
		}
		if lag == nil {
			return ctx.Err()
		}
		fmt.Fprintln(c.Stderr, clean(lag.Error()))
		from, ref = lag.Next, lag.Run
	}
}

// hiddenValue replaces values that must not be printed.
var hiddenValue = admin.Payload("null")

// chunk prints the value of a chunk. With JSON output it prints the whole chunk.
func (c *command) chunk(chunk *admin.Chunk) error {
	if c.jsonOut() {
		return c.oneLine(chunk)
	}
	_, err := fmt.Fprintln(c.Stdout, clean(string(chunk.Value)))
	return err
}
