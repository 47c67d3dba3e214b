-- Purge removes runs whose retention is over, with all their data.
-- It mirrors Purge of package protocol.
--
-- KEYS  1 ended runs by purge time  2 latest runs  3 number of later runs of each chain  4 last run
--       of each chain  5 routes  6 pending notifications  7 counter  8 ended runs whose purge is
--       held back
-- ARGV  1 now  2 maximum number of runs
--
-- Returns {number of runs purged, purge time of the next one or '', overwritten key, …}.
--
-- Atomic, because a run must never be visible in part. The keys of the runs are built because the
-- runs are found here. The first run of a chain is purged last, together with the streams of the
-- chain. The data that a partition keeps for all its runs is removed with the last run.
--
-- Parts: tag intact clock kept remembered reschedule drop sets last

local runs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', clock(ARGV[1]), 'LIMIT', '0', ARGV[2])
for _, run in ipairs(runs) do
  local meta, hidden = tag .. 'm:' .. run, tag .. 'g:' .. run
  local m = intact('HMGET', redis.call('EXISTS', meta) == 1 and meta or hidden, 'w', 'h', 'c', 'u', 'H', 'g', 'i') or {}
  if m[1] or m[7] then
    -- Part: label
    for _, set in ipairs(label_sets(run, m[1], m[7])) do
      intact('ZREM', set, run)
    end
  end
  redis.call('UNLINK', meta, hidden, tag .. 'l:' .. run, tag .. 'i:' .. run, tag .. 'n:' .. run,
    tag .. 'x:' .. run, tag .. 'j:' .. run, tag .. 's:' .. run)
  if m[6] then
    -- Part: failure_group
    leave_failure_group(run, m[6])
  end
  redis.call('ZREM', KEYS[1], run)
  redis.call('ZREM', done_runs(m[3], m[4], m[5]), run)
  forget_last(m[1], run)
  local chain = m[2]
  if chain and redis.call('HINCRBY', KEYS[3], chain, '-1') <= 0 then
    redis.call('HDEL', KEYS[3], chain)
    redis.call('HDEL', KEYS[4], chain)
    reschedule(chain)
  end
  if not chain then
    drop_streams(run)
  end
  redis.call('PUBLISH', tag .. 'frame:' .. run, '')
  redis.call('PUBLISH', tag .. 'stream:' .. (chain or run), '')
end
if #runs > 0 and redis.call('EXISTS', KEYS[1], KEYS[8]) == 0 then
  local open = 0
  for _, route in ipairs(redis.call('HKEYS', KEYS[5])) do
    open = open + redis.call('EXISTS', open_runs(route), open_runs(route, true))
  end
  if open == 0 then
    redis.call('DEL', KEYS[2], KEYS[5], KEYS[6], KEYS[7])
  end
end
return notified({#runs, redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')[2] or ''})
