-- forget_last removes a run that is deleted or purged from the latest runs. The hash keeps an empty
-- field if it has no other: a hash without fields does not exist, and fsck treats a missing hash as
-- lost.
local function forget_last(wid, run)
  local last = tag .. 'v'
  if wid and redis.call('HGET', last, wid) == run then
    redis.call('HDEL', last, wid)
    if redis.call('EXISTS', last) == 0 then
      redis.call('HSET', last, '', '')
    end
  end
end
