-- forget_last removes a run that is deleted or purged from the last ended runs. If the hash has no
-- other field, it keeps an empty one. Without a field the hash would not exist, and fsck treats a
-- missing hash as lost.
local function forget_last(wid, run)
  local last = tag .. 'v'
  if wid and redis.call('HGET', last, wid) == run then
    redis.call('HDEL', last, wid)
    if redis.call('EXISTS', last) == 0 then
      redis.call('HSET', last, '', '')
    end
  end
end
