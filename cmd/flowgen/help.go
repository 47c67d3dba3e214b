package main

const usage = `usage: flowgen [-check] [-since REVISION] [-manifest] [-client DIR] [-json] [packages]
       flowgen vet [-advice] [-fix] [-diff] [-json] [packages]
       flowgen breaking [-against REVISION] [packages]
       flowgen manifest [-mermaid] [packages]
       flowgen replay -store URL [packages]
       flowgen types [-o FILE] [-check] [packages]
       flowgen completion bash|zsh|fish
       flowgen -version
Run flowgen -help for details.
`

const help = `flowgen generates the durable counterparts of annotated Go functions: one
flow_gen.go per package, to be committed.

usage: flowgen [-check] [-json] [-manifest] [-client DIR] [packages]
       flowgen vet [-advice] [-fix] [-diff] [-json] [packages]
       flowgen breaking [-against REVISION] [packages]
       flowgen manifest [-mermaid] [packages]
       flowgen replay -store URL [packages]
       flowgen types [-o FILE] [-check] [packages]
       flowgen completion bash|zsh|fish
       flowgen -version

breaking reports changes that block open runs, replay checks the runs of a store, manifest
prints what runs depend on, and types prints the inputs and results of workflows as
TypeScript types. For details use flowgen COMMAND -help.

Packages are named as for the go command. The default is the package in the current
directory.

  -check     write nothing; fail if a file is missing or stale (for CI)
  -since R   compare the stored names with revision R of the Git repository
             instead of the files on disk; with -check, fail if a stored name
             changed, because open runs have the old one
  -manifest  also write flow.manifest.json, which contains what runs depend on; an
             existing manifest is updated without the flag
  -client D  also write a client package to directory D: it starts runs of the named
             package and communicates with them, and does not contain its steps; the
             option client= of //flow:package does the same without the flag
  -json      print the report as one JSON object on standard output
  -version   print the version
  -help      print this help

If no file has to be written, flowgen caches this result with a hash of all files that it
read, so that the next call does not execute the go command. The cache is in directory
flowgen of the user's cache directory, or in FLOWGENCACHE; FLOWGENCACHE=off disables it.

Examples:

  go tool flowgen ./...                   every package below
  go tool flowgen                         this package
  go tool flowgen -check ./...            in CI
  go tool flowgen -check -since=origin/main ./...
                                          in CI of a pull request
  //go:generate go tool flowgen ./...     in one file at the root of the module, if
                                          you use go generate

  go tool flowgen vet ./...               report code that workflows must not contain
                                          because they are replayed

Write directives in the doc comment, without a space after the slashes:

  //flow:step         above func charge(ctx context.Context, …) (T, error),
                      or such a method: generates Charge for workflows to call
      as=Name  name=orders.charge  key=order.ID  retries=5
      backoff=constant(1s)|linear(1s,1m)|exponential(200ms,30s[,2])
      jitter=0.2  total=10m  timeout=10s  fatal=ErrX,*TypeY  nonidempotent
      queue=slow  wire=payer:customer  uses=GPU:2,PerHost(url.Host)
      in a graph also:  after=sweep  each=plan  if=strict  onfail=skip
      in a machine also:  catch=giveUp
  //flow:workflow     above func fulfil(ctx workflow.Context, …) (T, error):
                      generates Fulfil, which starts and awaits runs
      as=Name  name=orders.fulfil  queue=slow  timeout=24h  retention=168h
      children=100  wire=payer:customer  uses=PerCustomer(order.Customer)
      schedule="30 2 * * * Europe/Zurich"  priority=order.Rank  startwithin=30s
      fair=order.Tenant:order.Share  rerun=3,exponential(1m,1h)
      singleton=order.ID,queue  debounce=doc.ID,10s,2m  batch=100,5s  pin
  //flow:dag          above a struct whose methods are steps; a parameter that is
                      named after a step takes its result
      the options of a workflow, and  onfail=finish  result=write
  //flow:machine      above a struct whose methods are steps, each of which returns
                      the next one
      the options of a workflow, and  start=begin  max=50
  //flow:error        above an error type or variable that callers match
      name=orders.DeclinedError
      or above the package clause, with errors of other packages:  pkg.ErrX,pkg.ErrY
  //flow:package      above the package clause
      name=prefix  register=Name  steps=Name  client=ordersclient

See docs/use/directives.md for all directives and options.

Exit codes: 0 success; 1 errors in the packages, or with -check, a file is stale or
a stored name changed; 2 usage error.
`
