"""Records what PyTorch makes of premade kinds that TensorFlow's estimators lack: python record.py > premade.json

Each model is written here from its paper, with PyTorch's own layers and derivatives, and trained by gradient descent. The test `pytorch`
reads the start values, losses, end values and logits, and trains the same jobs.
"""

import json

import torch
from torch.nn import functional as F

ROWS, BATCH, PASSES, RATE, DIMENSION = 24, 8, 2, 0.3, 4
BUCKETS = {"a": 6, "b": 5, "c": 4}
SCOPE = "dnn/input_from_feature_columns/input_layer"


class Model:
    """Variables by name, drawn as they are first read, and the features of a batch."""

    def __init__(self, seed, units):
        self.random = torch.Generator().manual_seed(seed)
        self.units = units
        self.variables = {}
        self.start = {}

    def variable(self, name, *shape, around=0.0):
        if name not in self.variables:
            drawn = torch.rand(*shape, generator=self.random, dtype=torch.float64) - 0.5
            value = (drawn + around).to(torch.float32)
            self.start[name] = value.tolist()
            self.variables[name] = value.double().requires_grad_()
        return self.variables[name]

    def embeddings(self, batch):
        """Returns `batch x fields x dimension`."""
        table = lambda key: self.variable(f"{SCOPE}/{key}_embedding/embedding_weights", BUCKETS[key], DIMENSION)
        return torch.stack([table(key)[batch[key]] for key in BUCKETS], dim=1)

    def whole(self, batch):
        """Returns the columns of the input layer, in the order of their names."""
        return torch.cat([self.embeddings(batch).flatten(1), batch["numbers"]], dim=1)

    def dense(self, scope, x, outputs, bias=True):
        y = x @ self.variable(f"{scope}/kernel", x.shape[-1], outputs)
        return y + self.variable(f"{scope}/bias", outputs) if bias else y

    def hidden(self, scope, x, units):
        for index, outputs in enumerate(units):
            x = torch.relu(self.dense(f"{scope}/hiddenlayer_{index}", x, outputs))
        return x

    def linear(self, batch):
        weights = [self.variable(f"linear/linear_model/{key}/weights", BUCKETS[key], self.units)[batch[key]] for key in BUCKETS]
        numbers = [batch["numbers"][:, place, None] * self.variable(f"linear/linear_model/{key}/weights", 1, self.units)
                   for place, key in enumerate("xy")]
        return sum(weights + numbers) + self.variable("linear/linear_model/bias_weights", self.units)

    def tower(self, x, units):
        return self.dense("dnn/logits", self.hidden("dnn", x, units), self.units)


class Dlrm(Model):
    """Naumov et al. 2019, https://github.com/facebookresearch/dlrm: `interact_features` with `arch_interaction_op = "dot"`."""

    keys = "hidden_units = [7, 5]\nbottom_units = [6]\n"

    def logits(self, batch):
        vectors = self.embeddings(batch)
        bottom = self.bottom(batch)
        if bottom is not None:
            vectors = torch.cat([bottom[:, None, :], vectors], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        dots = products[:, i, j]
        return self.tower(dots if bottom is None else torch.cat([bottom, dots], dim=1), [7, 5])

    def bottom(self, batch):
        return self.hidden("dlrm/bottom", batch["numbers"], [6, DIMENSION])


class DlrmWithoutNumbers(Dlrm):
    keys = "hidden_units = [7, 5]\n"
    numbers = False

    def bottom(self, batch):
        return None


class AutoInt(Model):
    """Song et al. 2019, equations 4 to 10. The attention is PyTorch's, whose products are divided by the root of the dimension unless told."""

    keys = "attention_layers = 2\nattention_heads = 2\nattention_dim = 3\n"

    def logits(self, batch):
        scaled = [batch["numbers"][:, place, None] * self.variable(f"autoint/{key}/kernel", 1, DIMENSION) for place, key in enumerate("xy")]
        vectors = torch.cat([self.embeddings(batch), torch.stack(scaled, dim=1)], dim=1)
        for index in range(2):
            scope = f"autoint/attention_{index}"
            query, key, value, residual = [self.dense(f"{scope}/{name}", vectors, 6, bias=False) for name in ("query", "key", "value", "residual")]
            query, key, value = [x.unflatten(2, (2, 3)).transpose(1, 2) for x in (query, key, value)]
            attended = F.scaled_dot_product_attention(query, key, value, scale=1.0)
            vectors = torch.relu(attended.transpose(1, 2).flatten(2) + residual)
        return self.dense("autoint/logits", vectors.flatten(1), self.units)


class AutoIntPlus(AutoInt):
    keys = AutoInt.keys + "hidden_units = [6]\n"

    def logits(self, batch):
        return super().logits(batch) + self.tower(self.whole(batch), [6])


class XDeepFm(Model):
    """Lian et al. 2018, equations 6 to 9, with the identity as activation and all rows of a layer in both directions."""

    keys = "hidden_units = [6]\ncin_units = [5, 3]\n"
    wide = True

    def logits(self, batch):
        first = below = self.embeddings(batch)
        sums = []
        for index, units in enumerate([5, 3]):
            kernel = self.variable(f"cin/layer_{index}/kernel", below.shape[1] * len(BUCKETS), units)
            kernel = kernel.unflatten(0, (below.shape[1], len(BUCKETS)))
            below = torch.einsum("bid,bjd,ijh->bhd", below, first, kernel)
            sums.append(below.sum(dim=2))
        cin = self.dense("cin/logits", torch.cat(sums, dim=1), self.units, bias=False)
        return cin + self.tower(self.whole(batch), [6]) + self.linear(batch)


class FinalMlp(Model):
    """Mao et al. 2023, equations 9 to 11, without feature gating."""

    keys = "hidden_units = [8, 6]\nsecond_hidden_units = [4]\nfusion_heads = 2\n"

    def logits(self, batch):
        whole = self.whole(batch)
        first = self.hidden("final_mlp/stream_0", whole, [8, 6])
        second = self.hidden("final_mlp/stream_1", whole, [4])
        logits = self.dense("final_mlp/logits", torch.cat([first, second], dim=1), self.units)
        for head, (one, other) in enumerate(zip(first.chunk(2, dim=1), second.chunk(2, dim=1))):
            kernel = self.variable(f"final_mlp/head_{head}/kernel", 3, self.units * 2)
            weight = kernel.unflatten(1, (self.units, 2)).transpose(0, 1)
            logits = logits + F.bilinear(one, other, weight)
        return logits


class MaskNet(Model):
    """Wang et al. 2021, equations 3 to 9. `Linear`s of the masks have biases, those of the hidden layers have not."""

    keys = "mask_units = [5, 3]\nmask_ratio = 2\nhidden_units = [6]\n"
    serial = False

    def norm(self, scope, x, width):
        gamma, beta = self.variable(f"{scope}/gamma", x.shape[1], around=1.0), self.variable(f"{scope}/beta", x.shape[1])
        return F.layer_norm(x.unflatten(1, (-1, width)), [width], eps=1e-5).flatten(1) * gamma + beta

    def block(self, scope, whole, x, units):
        aggregated = torch.relu(self.dense(f"{scope}/aggregation", whole, 2 * x.shape[1]))
        hidden = self.dense(f"{scope}/hidden", self.dense(f"{scope}/mask", aggregated, x.shape[1]) * x, units, bias=False)
        return torch.relu(self.norm(f"{scope}/norm", hidden, units))

    def logits(self, batch):
        whole = self.whole(batch)
        x = torch.cat([self.norm("masknet/embeddings", self.embeddings(batch).flatten(1), DIMENSION), batch["numbers"]], dim=1)
        blocks = []
        for index, units in enumerate([5, 3]):
            blocks.append(self.block(f"masknet/block_{index}", whole, x, units))
            if self.serial:
                x = blocks.pop()
        return self.tower(x if self.serial else torch.cat(blocks, dim=1), [6])


class SerialMaskNet(MaskNet):
    keys = MaskNet.keys + 'mask_blocks = "serial"\n'
    serial = True


class Din(Model):
    """Zhou et al. 2018, equation 3, with the input of the attention as in the authors' code, and ReLU. The rows are one by one, without padding."""

    keys = "hidden_units = [6]\nattention_units = [5, 3]\n"
    sections = '[[model.attention]]\nhistory = "seen"\ntarget = "a"\nhistory_max = 3\n'
    items = ("a", "seen")
    kept = slice(-3, None)

    def logits(self, batch):
        items = self.variable(f"{SCOPE}/items/embedding_weights", BUCKETS["a"], DIMENSION)
        targets = items[batch["a"]]
        sums = []
        for target, ids in zip(targets, batch["seen"]):
            keys = items[torch.tensor(ids[self.kept], dtype=torch.long)]
            query = target.expand_as(keys)
            hidden = self.hidden("din/seen", torch.cat([query, keys, query - keys, query * keys], dim=1), [5, 3])
            sums.append((self.dense("din/seen/weights", hidden, 1) * keys).sum(dim=0))
        others = [self.variable(f"{SCOPE}/{key}_embedding/embedding_weights", BUCKETS[key], DIMENSION)[batch[key]] for key in "bc"]
        return self.tower(torch.cat([targets, *others, batch["numbers"], torch.stack(sums)], dim=1), [6])


class DinOfFirst(Din):
    sections = Din.sections + 'keep = "first"\n'
    kept = slice(3)


class Tasks(Model):
    """Models of a binary task and one of regression. A label that is missing masks its task."""

    tasks = (("click", 1), ("spent", 1))
    heads = 'name = "click"\nhead = "binary"\nlabel = { column = "click" }\n', 'name = "spent"\nhead = "regression"\nweight = 0.5\nlabel = { column = "spent" }\n'

    def towers(self, inputs, units=[3]):
        return torch.cat([self.dense(f"tasks/{task}/logits", self.hidden(f"tasks/{task}", x, units), width)
                          for (task, width), x in zip(self.tasks, inputs)], dim=1)

    def experts(self, scope, x, count):
        return [self.hidden(f"{scope}/expert_{index}", x, [5]) for index in range(count)]

    def mixture(self, scope, x, experts):
        gate = F.softmax(self.dense(f"{scope}/gate", x, len(experts), bias=False), dim=1)
        return torch.einsum("be,bed->bd", gate, torch.stack(experts, dim=1))

    def loss(self, logits, batch):
        click, spent = ~batch["click"].isnan(), ~batch["spent"].isnan()
        return (F.binary_cross_entropy_with_logits(logits[click, 0], batch["click"][click])
                + 0.5 * F.mse_loss(logits[spent, 1], batch["spent"][spent]))


class SharedBottom(Tasks):
    keys = "hidden_units = [7, 5]\ntower_units = [3]\n"

    def logits(self, batch):
        bottom = self.hidden("bottom", self.whole(batch), [7, 5])
        return self.towers([bottom, bottom])


class SharedBottomOfThree(SharedBottom):
    """A task of three classes, too."""

    tasks = (("kind", 3), ("click", 1), ("spent", 1))
    heads = ('name = "kind"\nhead = "multi_class"\nn_classes = 3\nlabel = { column = "class" }\n',) + Tasks.heads

    def logits(self, batch):
        bottom = self.hidden("bottom", self.whole(batch), [7, 5])
        return self.towers([bottom] * 3)

    def loss(self, logits, batch):
        return F.cross_entropy(logits[:, :3], batch["label"]) + super().loss(logits[:, 3:], batch)


class Mmoe(Tasks):
    """Ma et al. 2018, equations 6 and 7."""

    keys = "hidden_units = [5]\nexperts = 3\ntower_units = [3]\n"

    def logits(self, batch):
        whole = self.whole(batch)
        experts = self.experts("mmoe", whole, 3)
        return self.towers([self.mixture(f"mmoe/tasks/{task}", whole, experts) for task, _ in self.tasks])


class Ple(Tasks):
    """Tang et al. 2020, equations 1 to 7."""

    keys = "hidden_units = [5]\nexperts = 2\ntask_experts = 3\nexpert_levels = 2\ntower_units = [3]\n"

    def logits(self, batch):
        shared_input = self.whole(batch)
        inputs = [shared_input] * 2
        for level in range(2):
            scope = f"ple/level_{level}"
            shared = self.experts(f"{scope}/shared", shared_input, 2)
            of_tasks = [self.experts(f"{scope}/tasks/{task}", x, 3) for (task, _), x in zip(self.tasks, inputs)]
            inputs = [self.mixture(f"{scope}/tasks/{task}", x, own + shared) for (task, _), x, own in zip(self.tasks, inputs, of_tasks)]
            if level == 0:
                shared_input = self.mixture(f"{scope}/shared", shared_input, of_tasks[0] + of_tasks[1] + shared)
        return self.towers(inputs)


class Esmm(Tasks):
    """Ma et al. 2018, equations 2 and 3. The second logit is that of pCTCVR, of which PyTorch takes the loss of probabilities."""

    keys = "tower_units = [6, 3]\n"
    heads = 'name = "click"\nhead = "binary"\nlabel = { column = "click" }\n', 'name = "buy"\nhead = "binary"\nlabel = { column = "buy" }\n'
    tasks = (("click", 1), ("buy", 1))

    def logits(self, batch):
        whole = self.whole(batch)
        click, conversion = self.towers([whole, whole], [6, 3]).sigmoid().unbind(dim=1)
        return torch.stack([click, click * conversion], dim=1).logit()

    def loss(self, logits, batch):
        probabilities = logits.sigmoid()
        click = ~batch["click"].isnan()
        return (F.binary_cross_entropy(probabilities[click, 0], batch["click"][click])
                + F.binary_cross_entropy(probabilities[:, 1], batch["buy"]))


CASES = [
    ("dlrm", Dlrm, "dlrm_classifier", 2),
    ("dlrm of 3 classes", Dlrm, "dlrm_classifier", 3),
    ("dlrm without numbers", DlrmWithoutNumbers, "dlrm_classifier", 2),
    ("autoint", AutoInt, "autoint_classifier", 2),
    ("autoint of 3 classes with a tower", AutoIntPlus, "autoint_classifier", 3),
    ("xdeepfm", XDeepFm, "xdeepfm_classifier", 2),
    ("xdeepfm of 3 classes", XDeepFm, "xdeepfm_classifier", 3),
    ("final_mlp", FinalMlp, "final_mlp_classifier", 2),
    ("final_mlp of 3 classes", FinalMlp, "final_mlp_classifier", 3),
    ("masknet", MaskNet, "masknet_classifier", 2),
    ("masknet of serial blocks and 3 classes", SerialMaskNet, "masknet_classifier", 3),
    ("shared_bottom", SharedBottom, "shared_bottom", None),
    ("shared_bottom of three tasks", SharedBottomOfThree, "shared_bottom", None),
    ("mmoe", Mmoe, "mmoe", None),
    ("ple", Ple, "ple", None),
    ("esmm", Esmm, "esmm", None),
    ("din", Din, "din_classifier", 2),
    ("din of first ids and 3 classes", DinOfFirst, "din_classifier", 3),
]


def records():
    random = torch.Generator().manual_seed(7)
    columns = {key: torch.randint(buckets, (ROWS,), generator=random) for key, buckets in BUCKETS.items()}
    columns["numbers"] = (torch.rand(ROWS, 2, generator=random) * 2 - 1).double()
    columns["label"] = torch.randint(3, (ROWS,), generator=random)
    columns["click"] = torch.randint(2, (ROWS,), generator=random).double()
    columns["spent"] = (torch.rand(ROWS, generator=random) * 4 - 2).double()
    columns["buy"] = columns["click"] * torch.randint(2, (ROWS,), generator=random)
    columns["click"][torch.rand(ROWS, generator=random) < 0.2] = torch.nan
    columns["spent"][(torch.rand(ROWS, generator=random) < 0.5) & ~columns["click"].isnan()] = torch.nan
    # A generator of its own: the columns above stay as they are.
    random = torch.Generator().manual_seed(8)
    counts = torch.randint(6, (ROWS,), generator=random).tolist()
    columns["seen"] = [torch.randint(BUCKETS["a"], (count,), generator=random).tolist() for count in counts]
    return columns


def table(columns):
    lines = ["a,b,c,x,y,binary,class,click,spent,buy,seen"]
    for row in range(ROWS):
        numbers = [format(value, ".9g") for value in columns["numbers"][row].tolist()]
        label = columns["label"][row].item()
        keys = [str(columns[key][row].item()) for key in BUCKETS]
        given = [columns[key][row].item() for key in ("click", "spent", "buy")]
        given = ["" if value != value else format(value, ".9g") for value in given]
        lines.append(",".join(keys + numbers + [str(label % 2), str(label)] + given + ["|".join(map(str, columns["seen"][row]))]))
    return "\n".join(lines) + "\n"


def job(kind, classes, case):
    heads = getattr(case, "heads", ())
    label = '"binary"' if classes == 2 else '"class"'
    wide = getattr(case, "wide", False)
    items = getattr(case, "items", ())
    shared = lambda key: ', table = "items"' if key in items else ""
    features = [f'column = "{key}"\nkind = "identity"\nbuckets = {buckets}\nwide = {str(wide).lower()}\ndeep = {{ embedding = {DIMENSION}{shared(key)} }}\n'
                for key, buckets in BUCKETS.items()]
    if items:
        features.append(f'column = "seen"\nkind = "identity"\nbuckets = {BUCKETS["a"]}\nseparator = "|"\n'
                        f'deep = {{ embedding = {DIMENSION}{shared("seen")} }}\n')
    if getattr(case, "numbers", True):
        features += [f'column = "{key}"\nkind = "numeric"\nwide = {str(wide).lower()}\ndeep = true\n' for key in "xy"]
    rule = f'{{ kind = "sgd", learning_rate = {RATE} }}'
    vocabulary = "" if classes == 2 else ', vocabulary = ["0", "1", "2"]'
    linear = f"linear_optimizer = {rule}\n" if wide else ""
    label = "" if heads else f"label = {{ column = {label}{vocabulary} }}\n"
    return (f'model_dir = "m"\n[input]\n{label}train = {{ files = ["t"], epochs = 1 }}\n'
            + "".join("[[feature]]\n" + feature for feature in features)
            + f'[model]\nkind = "{kind}"\n{case.keys}dnn_optimizer = {rule}\n{linear}'
            + getattr(case, "sections", "")
            + "".join("[[model.task]]\n" + head for head in heads))


def record(name, case, kind, classes, seed, columns):
    model = case(seed, 1 if classes == 2 else classes)
    batches = [{key: value[begin:begin + BATCH] for key, value in columns.items()} for begin in range(0, ROWS, BATCH)]
    losses = []
    for batch in batches * PASSES:
        logits = model.logits(batch)
        if classes is None:
            loss = model.loss(logits, batch)
        elif classes == 2:
            loss = F.binary_cross_entropy_with_logits(logits[:, 0], (batch["label"] % 2).double())
        else:
            loss = F.cross_entropy(logits, batch["label"])
        gradients = torch.autograd.grad(loss, list(model.variables.values()))
        with torch.no_grad():
            for value, gradient in zip(model.variables.values(), gradients):
                value -= RATE * gradient
        losses.append(loss.item())
    end = {name: value.detach().to(torch.float32).tolist() for name, value in model.variables.items()}
    logits = model.logits(columns).detach().to(torch.float32).tolist()
    keys = [f"{task}/predictions" if task == "spent" else f"{task}/logits" for task, _ in getattr(case, "tasks", ())] or ["logits"]
    return {"name": name, "job": job(kind, classes, case), "keys": keys, "start": model.start, "losses": losses, "end": end, "logits": logits}


def main():
    columns = records()
    cases = [record(*case, seed, columns) for seed, case in enumerate(CASES)]
    print(json.dumps({"torch": torch.__version__.split("+")[0], "rows": table(columns), "batch_size": BATCH, "passes": PASSES}, indent=1)[:-2] + ",")
    print(' "cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}")


if __name__ == "__main__":
    main()
